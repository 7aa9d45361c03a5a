// RocksDB's C interface makes a rate limiter, cannot change its rate, and takes none of one's own.
// `rocksdb_ratelimiter_t` is defined in db/c.cc of RocksDB 11.8 and nowhere else; what is read through this
// copy of it is checked at each start (limiter.rs).

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "rocksdb/rate_limiter.h"

using ROCKSDB_NAMESPACE::Env;
using ROCKSDB_NAMESPACE::NewGenericRateLimiter;
using ROCKSDB_NAMESPACE::RateLimiter;
using ROCKSDB_NAMESPACE::Statistics;

namespace {

// What compaction asks its limit for at once, so that it soon hears of another one.
constexpr int64_t kStepBytes = 16 << 10;

// What flush and compaction pass together. Compaction, which asks with the low priority, passes a limit of
// its own before: no flush ever waits for that one, nor behind a compaction that does.
class TwoLimits : public RateLimiter {
 public:
  // Each thread of flush and compaction calls `thread_begins` before it writes its first bytes.
  TwoLimits(int64_t bytes_per_second, int64_t refill_us, int32_t fairness, void (*thread_begins)())
      : thread_begins_(thread_begins),
        all_(NewGenericRateLimiter(bytes_per_second, refill_us, fairness)),
        compaction_(NewGenericRateLimiter(bytes_per_second, refill_us, fairness)) {}

  void SetBytesPerSecond(int64_t bytes_per_second) override { all_->SetBytesPerSecond(bytes_per_second); }

  // 0 is no limit. The inner limiter keeps its rate then: at a larger one it would set aside as much as
  // passes in a step, and hand that out when it is limited again.
  void SetCompactionRate(int64_t bytes_per_second) {
    if (bytes_per_second > 0) compaction_->SetBytesPerSecond(bytes_per_second);
    is_compaction_limited_.store(bytes_per_second > 0, std::memory_order_release);
  }

  using RateLimiter::Request;

  void Request(const int64_t bytes, const Env::IOPriority priority, Statistics* statistics) override {
    Request(bytes, priority, statistics, OpType::kWrite);
  }

  void Request(const int64_t bytes, const Env::IOPriority priority, Statistics* statistics,
               OpType operation) override {
    static thread_local bool has_begun = false;
    if (!has_begun && (priority == Env::IO_LOW || priority == Env::IO_HIGH)) {
      has_begun = true;
      thread_begins_();
    }
    if (priority == Env::IO_LOW && IsRateLimited(operation)) {
      // In steps, so that a limit that is taken away is not waited for any more.
      for (int64_t left = bytes; left > 0 && is_compaction_limited_.load(std::memory_order_acquire);) {
        const int64_t step = std::min({left, compaction_->GetSingleBurstBytes(), kStepBytes});
        compaction_->Request(step, priority, nullptr, operation);
        left -= step;
      }
    }
    all_->Request(bytes, priority, statistics, operation);
  }

  int64_t GetSingleBurstBytes() const override { return all_->GetSingleBurstBytes(); }

  int64_t GetTotalBytesThrough(const Env::IOPriority priority) const override {
    return all_->GetTotalBytesThrough(priority);
  }

  int64_t GetTotalRequests(const Env::IOPriority priority) const override {
    return all_->GetTotalRequests(priority);
  }

  int64_t GetBytesPerSecond() const override { return all_->GetBytesPerSecond(); }

 private:
  void (*const thread_begins_)();
  const std::unique_ptr<RateLimiter> all_;
  const std::unique_ptr<RateLimiter> compaction_;
  std::atomic<bool> is_compaction_limited_{false};
};

}  // namespace

struct rocksdb_ratelimiter_t {
  std::shared_ptr<RateLimiter> rep;
};

// Given back by `rocksdb_ratelimiter_destroy`.
extern "C" rocksdb_ratelimiter_t* heddle_limiter_create(int64_t bytes_per_second, int64_t refill_us,
                                                        int32_t fairness, void (*thread_begins)()) {
  return new rocksdb_ratelimiter_t{
      std::make_shared<TwoLimits>(bytes_per_second, refill_us, fairness, thread_begins)};
}

extern "C" void heddle_limiter_set_rate(rocksdb_ratelimiter_t* limiter, int64_t bytes_per_second) {
  limiter->rep->SetBytesPerSecond(bytes_per_second);
}

extern "C" int64_t heddle_limiter_rate(const rocksdb_ratelimiter_t* limiter) {
  return limiter->rep->GetBytesPerSecond();
}

// Of one that `heddle_limiter_create` has made.
extern "C" void heddle_limiter_set_compaction_rate(rocksdb_ratelimiter_t* limiter, int64_t bytes_per_second) {
  static_cast<TwoLimits*>(limiter->rep.get())->SetCompactionRate(bytes_per_second);
}

extern "C" int64_t heddle_limiter_passed(const rocksdb_ratelimiter_t* limiter) {
  return limiter->rep->GetTotalBytesThrough(Env::IO_TOTAL);
}

// For tests: waits as flush or compaction do.
extern "C" void heddle_limiter_request(rocksdb_ratelimiter_t* limiter, int64_t bytes, bool is_compaction) {
  const auto priority = is_compaction ? Env::IO_LOW : Env::IO_HIGH;
  for (int64_t left = bytes; left > 0;) {
    left -= static_cast<int64_t>(limiter->rep->RequestToken(static_cast<size_t>(left), 0, priority, nullptr,
                                                            RateLimiter::OpType::kWrite));
  }
}
