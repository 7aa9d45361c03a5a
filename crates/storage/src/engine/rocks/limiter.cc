// RocksDB's C interface makes a rate limiter and cannot change its rate. `rocksdb_ratelimiter_t` is defined in
// db/c.cc of RocksDB 11.8 and nowhere else; what is read through this copy of it is checked at each start
// (limiter.rs).

#include <memory>

#include "rocksdb/rate_limiter.h"

struct rocksdb_ratelimiter_t {
  std::shared_ptr<ROCKSDB_NAMESPACE::RateLimiter> rep;
};

extern "C" void heddle_limiter_set_rate(rocksdb_ratelimiter_t* limiter, int64_t bytes_per_second) {
  limiter->rep->SetBytesPerSecond(bytes_per_second);
}

extern "C" int64_t heddle_limiter_rate(const rocksdb_ratelimiter_t* limiter) {
  return limiter->rep->GetBytesPerSecond();
}
