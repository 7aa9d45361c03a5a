// RocksDB 11.8 compresses each block of a table that has a dictionary in a context of its own, which it makes
// and frees: where a table's dictionary is made (`BlockBasedTableBuilder::EnterUnbuffered`), nobody obtains a
// working area, as is done for tables without one. Here the compressor with the dictionary keeps one itself.
// Its interface in C takes no compression manager; what is read through `rocksdb_options_t`, which is defined in
// db/c.cc and nowhere else, is checked each time (compressor.rs).

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "rocksdb/advanced_compression.h"
#include "rocksdb/options.h"

using ROCKSDB_NAMESPACE::CacheEntryRole;
using ROCKSDB_NAMESPACE::CompressionManagerWrapper;
using ROCKSDB_NAMESPACE::CompressionOptions;
using ROCKSDB_NAMESPACE::CompressionType;
using ROCKSDB_NAMESPACE::Compressor;
using ROCKSDB_NAMESPACE::CompressorWrapper;
using ROCKSDB_NAMESPACE::FilterBuildingContext;
using ROCKSDB_NAMESPACE::GetBuiltinV2CompressionManager;
using ROCKSDB_NAMESPACE::Options;
using ROCKSDB_NAMESPACE::Slice;
using ROCKSDB_NAMESPACE::Status;

namespace {

std::atomic<uint64_t> contexts{0};
std::atomic<uint64_t> blocks{0};

// One of RocksDB's own, and the context in which it compresses for whoever brings none.
class KeepingCompressor : public CompressorWrapper {
 public:
  using CompressorWrapper::CompressorWrapper;

  const char* Name() const override { return wrapped_->Name(); }
  std::string GetId() const override { return wrapped_->GetId(); }

  std::unique_ptr<Compressor> Clone() const override {
    return std::make_unique<KeepingCompressor>(wrapped_->Clone());
  }

  std::unique_ptr<Compressor> MaybeCloneSpecialized(CacheEntryRole block_type,
                                                    DictConfigArgs&& dictionary) const override {
    auto clone = wrapped_->MaybeCloneSpecialized(block_type, std::move(dictionary));
    return clone ? std::make_unique<KeepingCompressor>(std::move(clone)) : nullptr;
  }

  Status CompressBlock(Slice block, char* out, size_t* out_bytes, CompressionType* type,
                       ManagedWorkingArea* area) override {
    if (area != nullptr && area->owner() == wrapped_.get()) {
      return wrapped_->CompressBlock(block, out, out_bytes, type, area);
    }
    // One thread builds a table. Whoever came second would have none, as before.
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return wrapped_->CompressBlock(block, out, out_bytes, type, area);
    if (kept_.get() == nullptr) {
      kept_ = wrapped_->ObtainWorkingArea();
      contexts.fetch_add(1, std::memory_order_relaxed);
    }
    blocks.fetch_add(1, std::memory_order_relaxed);
    return wrapped_->CompressBlock(block, out, out_bytes, type, &kept_);
  }

 private:
  std::mutex mutex_;
  // Given back to what is wrapped, which lives longer.
  ManagedWorkingArea kept_;
};

// Tables are those of RocksDB's own manager, and any that has this name reads them.
class KeepingManager : public CompressionManagerWrapper {
 public:
  using CompressionManagerWrapper::CompressionManagerWrapper;

  const char* Name() const override { return wrapped_->Name(); }

  std::unique_ptr<Compressor> GetCompressorForSST(const FilterBuildingContext& context,
                                                  const CompressionOptions& options,
                                                  CompressionType preferred) override {
    return Keeping(wrapped_->GetCompressorForSST(context, options, preferred));
  }

  std::unique_ptr<Compressor> GetCompressor(const CompressionOptions& options, CompressionType type) override {
    return Keeping(wrapped_->GetCompressor(options, type));
  }

 private:
  // Only zstd has dictionaries here, and contexts that cost something.
  static std::unique_ptr<Compressor> Keeping(std::unique_ptr<Compressor> compressor) {
    if (compressor == nullptr || compressor->GetPreferredCompressionType() != ROCKSDB_NAMESPACE::kZSTD) {
      return compressor;
    }
    return std::make_unique<KeepingCompressor>(std::move(compressor));
  }
};

}  // namespace

struct rocksdb_options_t {
  Options rep;
};

// As this copy of the struct has it; the interface in C tells the same.
extern "C" uint64_t heddle_options_target_file_size(const rocksdb_options_t* options) {
  return options->rep.target_file_size_base;
}

extern "C" void heddle_options_keep_compression_contexts(rocksdb_options_t* options) {
  options->rep.compression_manager = std::make_shared<KeepingManager>(GetBuiltinV2CompressionManager());
}

// For tests: contexts that were made to be kept, and blocks that were compressed in them, by all tables so far.
extern "C" void heddle_kept_contexts(uint64_t* made, uint64_t* used) {
  *made = contexts.load(std::memory_order_relaxed);
  *used = blocks.load(std::memory_order_relaxed);
}
