// A file system for RocksDB whose files are sealed and opened by `sealed.rs`. RocksDB's C interface takes no
// file system of one's own.
// `rocksdb_env_t` is defined in db/c.cc of RocksDB 11.8 and nowhere else; that the database was opened with the
// one made here is checked at each start (sealed.rs).

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"

using namespace ROCKSDB_NAMESPACE;

// As in sealed.rs.
struct HeddleSealCalls {
  const void* vault;
  void (*forget)(const void* vault);
  // Sequential files. The numbers that are given back are bytes, or negative: -1 the file is damaged, else an
  // error of the system, negated, less 1.
  int64_t (*open)(const void* vault, const uint8_t* path, size_t length, void** reader);
  int64_t (*read)(void* reader, uint8_t* into, size_t bytes);
  void (*close)(void* reader);
  int64_t (*length)(const void* vault, const uint8_t* path, size_t length);
  // Files in pages.
  int64_t (*open_pages)(const void* vault, const uint8_t* path, size_t length, void** pages);
  int64_t (*read_at)(const void* pages, uint64_t offset, uint8_t* into, size_t bytes);
  int64_t (*page_bytes)(const void* pages);
  void (*advise)(const void* pages, int32_t advice, uint64_t offset, uint64_t bytes);
  void (*close_pages)(void* pages);
  // What is written.
  void* (*begin)(const void* vault, bool in_pages, const uint8_t** out, size_t* length);
  bool (*append)(void* sealer, const uint8_t* bytes, size_t count, const uint8_t** out, size_t* length);
  void (*finish)(void* sealer, const uint8_t** out, size_t* length);
  void (*give_up)(void* sealer);
  void (*drop)(void* sealer);
};

namespace {

constexpr int32_t kAdviseNormal = 0;
constexpr int32_t kAdviseRandom = 1;
constexpr int32_t kAdviseSequential = 2;
constexpr int32_t kAdviseWillNeed = 3;
constexpr int32_t kAdviseWontNeed = 4;

const uint8_t* Bytes(const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); }

IOStatus Failed(int64_t result, const std::string& name, const char* doing) {
  if (result == -1) return IOStatus::Corruption(std::string(doing) + " an encrypted file: a seal does not agree", name);
  const int error = static_cast<int>(-(result + 1));
  const std::string about = std::string(doing) + ": " + name;
  if (error == ENOENT) return IOStatus::PathNotFound(about, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return IOStatus::NoSpace(about, std::strerror(error));
  return IOStatus::IOError(about, std::strerror(error));
}

class SealedSequentialFile : public FSSequentialFile {
 public:
  SealedSequentialFile(const HeddleSealCalls& calls, void* reader, const std::string& name)
      : calls_(calls), reader_(reader), name_(name) {}
  ~SealedSequentialFile() override { calls_.close(reader_); }

  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch, IODebugContext*) override {
    // The reader takes no memory that nothing was written to.
    std::memset(scratch, 0, n);
    size_t filled = 0;
    while (filled < n) {
      const int64_t read = calls_.read(reader_, reinterpret_cast<uint8_t*>(scratch) + filled, n - filled);
      if (read < 0) {
        *result = Slice();
        return Failed(read, name_, "reading");
      }
      if (read == 0) break;
      filled += static_cast<size_t>(read);
    }
    *result = Slice(scratch, filled);
    return IOStatus::OK();
  }

  IOStatus Skip(uint64_t n) override {
    char passed[4096];
    while (n > 0) {
      Slice result;
      const size_t step = n < sizeof(passed) ? static_cast<size_t>(n) : sizeof(passed);
      IOStatus status = Read(step, IOOptions(), &result, passed, nullptr);
      if (!status.ok() || result.empty()) return status;
      n -= result.size();
    }
    return IOStatus::OK();
  }

 private:
  const HeddleSealCalls& calls_;
  void* const reader_;
  const std::string name_;
};

class SealedTable : public FSRandomAccessFile {
 public:
  SealedTable(const HeddleSealCalls& calls, void* pages, const std::string& name)
      : calls_(calls), pages_(pages), name_(name) {}
  ~SealedTable() override { calls_.close_pages(pages_); }

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    const int64_t read = calls_.read_at(pages_, offset, reinterpret_cast<uint8_t*>(scratch), n);
    if (read < 0) {
      *result = Slice();
      return Failed(read, name_, "reading");
    }
    *result = Slice(scratch, static_cast<size_t>(read));
    return IOStatus::OK();
  }

  IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions&, IODebugContext*) override {
    calls_.advise(pages_, kAdviseWillNeed, offset, n);
    return IOStatus::OK();
  }

  void Hint(AccessPattern pattern) override {
    int32_t advice = kAdviseNormal;
    if (pattern == kRandom) advice = kAdviseRandom;
    if (pattern == kSequential) advice = kAdviseSequential;
    if (pattern == kWillNeed) advice = kAdviseWillNeed;
    if (pattern == kWontNeed) advice = kAdviseWontNeed;
    calls_.advise(pages_, advice, 0, 0);
  }

  IOStatus InvalidateCache(size_t offset, size_t length) override {
    calls_.advise(pages_, kAdviseWontNeed, offset, length);
    return IOStatus::OK();
  }

  IOStatus GetFileSize(uint64_t* result) override {
    *result = static_cast<uint64_t>(calls_.page_bytes(pages_));
    return IOStatus::OK();
  }

 private:
  const HeddleSealCalls& calls_;
  void* const pages_;
  const std::string name_;
};

// What is appended is sealed and appended to the file below. Syncs go straight to it, so that they may run
// beside an append, but for a file in pages, whose end is written before.
class SealedWritableFile : public FSWritableFileOwnerWrapper {
 public:
  SealedWritableFile(const HeddleSealCalls& calls, std::unique_ptr<FSWritableFile>&& file, void* sealer,
                     bool in_pages, const std::string& name)
      : FSWritableFileOwnerWrapper(std::move(file)),
        calls_(calls),
        sealer_(sealer),
        in_pages_(in_pages),
        name_(name) {}
  ~SealedWritableFile() override { calls_.drop(sealer_); }

  IOStatus Begin(const uint8_t* header, size_t length) {
    return Put(header, length, IOOptions(), nullptr);
  }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* context) override {
    if (!failed_.ok()) return failed_;
    const uint8_t* out = nullptr;
    size_t length = 0;
    if (!calls_.append(sealer_, reinterpret_cast<const uint8_t*>(data.data()), data.size(), &out, &length)) {
      return IOStatus::IOError(name_, "an encrypted table is written to behind its end");
    }
    IOStatus status = Put(out, length, options, context);
    if (status.ok()) bytes_ += data.size();
    return status;
  }

  // Whoever appends hands over a checksum that only holds for what is not sealed; nothing asks for that.
  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo&,
                  IODebugContext* context) override {
    return Append(data, options, context);
  }

  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("writing anywhere in an encrypted file", name_);
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, const DataVerificationInfo&,
                            IODebugContext*) override {
    return IOStatus::NotSupported("writing anywhere in an encrypted file", name_);
  }

  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    if (size == bytes_) return IOStatus::OK();
    return IOStatus::NotSupported("cutting an encrypted file", name_);
  }

  IOStatus Close(const IOOptions& options, IODebugContext* context) override {
    IOStatus status = Finish(options, context);
    IOStatus closed = target()->Close(options, context);
    return status.ok() ? closed : status;
  }

  IOStatus Sync(const IOOptions& options, IODebugContext* context) override {
    IOStatus status = in_pages_ ? Finish(options, context) : IOStatus::OK();
    return status.ok() ? target()->Sync(options, context) : status;
  }

  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override {
    IOStatus status = in_pages_ ? Finish(options, context) : IOStatus::OK();
    return status.ok() ? target()->Fsync(options, context) : status;
  }

  bool IsSyncThreadSafe() const override { return !in_pages_ && target()->IsSyncThreadSafe(); }

  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return bytes_; }

  // Nothing of a file below is read or cached under these.
  size_t GetUniqueId(char*, size_t) const override { return 0; }

  // More is written than told here: what is ahead of it is only set aside a little later.
  void PrepareWrite(size_t offset, size_t length, const IOOptions& options, IODebugContext* context) override {
    target()->PrepareWrite(offset, length, options, context);
  }

  void SetIOPriority(Env::IOPriority priority) override {
    FSWritableFileOwnerWrapper::SetIOPriority(priority);
    target()->SetIOPriority(priority);
  }

 private:
  IOStatus Finish(const IOOptions& options, IODebugContext* context) {
    if (!failed_.ok()) return failed_;
    const uint8_t* out = nullptr;
    size_t length = 0;
    if (in_pages_) calls_.finish(sealer_, &out, &length);
    return Put(out, length, options, context);
  }

  // What was given out once and not written whole would be in the way of all that comes behind it.
  IOStatus Put(const uint8_t* bytes, size_t length, const IOOptions& options, IODebugContext* context) {
    if (length == 0) return IOStatus::OK();
    IOStatus status = target()->Append(Slice(reinterpret_cast<const char*>(bytes), length), options, context);
    if (!status.ok()) {
      calls_.give_up(sealer_);
      failed_ = status;
    }
    return status;
  }

  const HeddleSealCalls& calls_;
  void* const sealer_;
  const bool in_pages_;
  const std::string name_;
  uint64_t bytes_ = 0;
  IOStatus failed_;
};

// A log that RocksDB opens once more, to sync it or to give back the room behind its end, which stays.
class EndedFile : public FSWritableFileOwnerWrapper {
 public:
  EndedFile(std::unique_ptr<FSWritableFile>&& file, uint64_t bytes, const std::string& name)
      : FSWritableFileOwnerWrapper(std::move(file)), bytes_(bytes), name_(name) {}

  IOStatus Append(const Slice&, const IOOptions&, IODebugContext*) override { return Refuse(); }
  IOStatus Append(const Slice&, const IOOptions&, const DataVerificationInfo&, IODebugContext*) override {
    return Refuse();
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return Refuse();
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, const DataVerificationInfo&,
                            IODebugContext*) override {
    return Refuse();
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    return size == bytes_ ? IOStatus::OK() : Refuse();
  }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return bytes_; }

 private:
  IOStatus Refuse() const { return IOStatus::NotSupported("going on with an encrypted file", name_); }

  const uint64_t bytes_;
  const std::string name_;
};

class SealedFileSystem : public FileSystemWrapper {
 public:
  explicit SealedFileSystem(const HeddleSealCalls& calls) : FileSystemWrapper(FileSystem::Default()), calls_(calls) {}
  ~SealedFileSystem() override { calls_.forget(calls_.vault); }

  const char* Name() const override { return "HeddleSealedFileSystem"; }

  IOStatus NewSequentialFile(const std::string& name, const FileOptions&, std::unique_ptr<FSSequentialFile>* result,
                             IODebugContext*) override {
    void* reader = nullptr;
    const int64_t opened = calls_.open(calls_.vault, Bytes(name), name.size(), &reader);
    if (opened < 0) return Failed(opened, name, "opening");
    result->reset(new SealedSequentialFile(calls_, reader, name));
    return IOStatus::OK();
  }

  IOStatus NewRandomAccessFile(const std::string& name, const FileOptions&,
                               std::unique_ptr<FSRandomAccessFile>* result, IODebugContext*) override {
    void* pages = nullptr;
    const int64_t opened = calls_.open_pages(calls_.vault, Bytes(name), name.size(), &pages);
    if (opened < 0) return Failed(opened, name, "opening");
    result->reset(new SealedTable(calls_, pages, name));
    return IOStatus::OK();
  }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* result, IODebugContext* context) override {
    FileOptions plain = options;
    plain.use_direct_writes = false;
    plain.use_mmap_writes = false;
    std::unique_ptr<FSWritableFile> file;
    IOStatus status = target()->NewWritableFile(name, plain, &file, context);
    if (!status.ok()) return status;
    const bool in_pages = name.size() > 4 && name.compare(name.size() - 4, 4, ".sst") == 0;
    const uint8_t* header = nullptr;
    size_t length = 0;
    void* sealer = calls_.begin(calls_.vault, in_pages, &header, &length);
    auto sealed = std::make_unique<SealedWritableFile>(calls_, std::move(file), sealer, in_pages, name);
    status = sealed->Begin(header, length);
    if (status.ok()) *result = std::move(sealed);
    return status;
  }

  IOStatus ReopenWritableFile(const std::string& name, const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* result, IODebugContext* context) override {
    uint64_t bytes = 0;
    IOStatus status = GetFileSize(name, options.io_options, &bytes, context);
    if (!status.ok()) return status;
    std::unique_ptr<FSWritableFile> file;
    status = target()->ReopenWritableFile(name, options, &file, context);
    if (status.ok()) result->reset(new EndedFile(std::move(file), bytes, name));
    return status;
  }

  // A file that is used again is a new one under a name that was there.
  IOStatus ReuseWritableFile(const std::string& name, const std::string& old, const FileOptions& options,
                             std::unique_ptr<FSWritableFile>* result, IODebugContext* context) override {
    IOStatus status = RenameFile(old, name, options.io_options, context);
    return status.ok() ? NewWritableFile(name, options, result, context) : status;
  }

  IOStatus NewRandomRWFile(const std::string& name, const FileOptions&, std::unique_ptr<FSRandomRWFile>*,
                           IODebugContext*) override {
    return IOStatus::NotSupported("writing anywhere in an encrypted file", name);
  }

  IOStatus NewMemoryMappedFileBuffer(const std::string& name, std::unique_ptr<MemoryMappedFileBuffer>*) override {
    return IOStatus::NotSupported("mapping an encrypted file", name);
  }

  IOStatus Truncate(const std::string& name, size_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("cutting an encrypted file", name);
  }

  IOStatus GetFileSize(const std::string& name, const IOOptions&, uint64_t* bytes, IODebugContext*) override {
    const int64_t length = calls_.length(calls_.vault, Bytes(name), name.size());
    if (length < 0) return Failed(length, name, "looking at");
    *bytes = static_cast<uint64_t>(length);
    return IOStatus::OK();
  }

  IOStatus GetChildrenFileAttributes(const std::string& directory, const IOOptions& options,
                                     std::vector<FileAttributes>* result, IODebugContext* context) override {
    return FileSystem::GetChildrenFileAttributes(directory, options, result, context);
  }

  // The log of the engine has keys in it: it is written through this file system as well.
  IOStatus NewLogger(const std::string& name, const IOOptions& options, std::shared_ptr<Logger>* result,
                     IODebugContext* context) override {
    return FileSystem::NewLogger(name, options, result, context);
  }

  void SupportedOps(int64_t& operations) override { operations = 1 << FSSupportedOps::kFSPrefetch; }

 private:
  const HeddleSealCalls calls_;
};

}  // namespace

struct rocksdb_env_t {
  Env* rep;
  bool is_default;
};

// Given back by `rocksdb_env_destroy`, after every database that was opened with it.
extern "C" rocksdb_env_t* heddle_sealed_env_create(const HeddleSealCalls* calls) {
  return new rocksdb_env_t{NewCompositeEnv(std::make_shared<SealedFileSystem>(*calls)).release(), false};
}
