// What compactions that run were allowed to take. RocksDB's C interface makes the object that keeps account
// of it and bounds it; it does not tell this figure. `rocksdb_sst_file_manager_t` is defined in db/c.cc of
// RocksDB 11.8 and nowhere else, and of the class in file/sst_file_manager_impl.h one function is called: a
// RocksDB without it does not link, and what it tells is checked at each start (room.rs).

#include <memory>

#include "rocksdb/sst_file_manager.h"

struct rocksdb_sst_file_manager_t {
  std::shared_ptr<ROCKSDB_NAMESPACE::SstFileManager> rep;
};

namespace ROCKSDB_NAMESPACE {
class SstFileManagerImpl : public SstFileManager {
 public:
  uint64_t GetCompactionsReservedSize();
};
}  // namespace ROCKSDB_NAMESPACE

extern "C" uint64_t heddle_compactions_reserved(rocksdb_sst_file_manager_t* manager) {
  return static_cast<ROCKSDB_NAMESPACE::SstFileManagerImpl*>(manager->rep.get())
      ->GetCompactionsReservedSize();
}
