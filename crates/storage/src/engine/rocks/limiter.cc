// RocksDB's C interface makes a rate limiter, cannot change its rate, and takes none of one's own.
// `rocksdb_ratelimiter_t` is defined in db/c.cc of RocksDB 11.8 and nowhere else; what is read through this
// copy of it is checked at each start (limiter.rs).

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "rocksdb/rate_limiter.h"

using ROCKSDB_NAMESPACE::Env;
using ROCKSDB_NAMESPACE::NewGenericRateLimiter;
using ROCKSDB_NAMESPACE::RateLimiter;
using ROCKSDB_NAMESPACE::Statistics;

namespace {

// What compaction asks its limits for at once, of bytes or of microseconds, so that it soon hears of another
// one.
constexpr int64_t kStep = 16 << 10;

// A limit of its own for compaction, or none.
class OwnLimit {
 public:
  OwnLimit(int64_t per_second, int64_t refill_us, int32_t fairness)
      : limit_(NewGenericRateLimiter(per_second, refill_us, fairness)) {}

  // 0 is no limit. The inner limiter keeps its rate then: at a larger one it would set aside as much as
  // passes in a step, and hand that out when it is limited again.
  void Set(int64_t per_second) {
    if (per_second > 0) limit_->SetBytesPerSecond(per_second);
    is_limited_.store(per_second > 0, std::memory_order_release);
  }

  // In steps, so that a limit that is taken away is not waited for any more.
  void Pass(int64_t amount) {
    for (int64_t left = amount; left > 0 && is_limited_.load(std::memory_order_acquire);) {
      const int64_t step = std::min({left, limit_->GetSingleBurstBytes(), kStep});
      limit_->Request(step, Env::IO_LOW, nullptr, RateLimiter::OpType::kWrite);
      left -= step;
    }
  }

 private:
  const std::unique_ptr<RateLimiter> limit_;
  std::atomic<bool> is_limited_{false};
};

// The processor time of the calling thread since it was asked for last, in microseconds.
int64_t SpentMicros() {
  static thread_local int64_t before = 0;
  timespec now;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
  const int64_t micros = int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
  return micros - std::exchange(before, micros);
}

// What flush and compaction pass together. Compaction, which asks with the low priority, passes limits of
// its own before: no flush ever waits for that one, nor behind a compaction that does.
class EngineLimits : public RateLimiter {
 public:
  // Each thread of flush and compaction calls `thread_begins` before it writes its first bytes.
  EngineLimits(int64_t bytes_per_second, int64_t refill_us, int32_t fairness, void (*thread_begins)())
      : thread_begins_(thread_begins),
        all_(NewGenericRateLimiter(bytes_per_second, refill_us, fairness)),
        compaction_(bytes_per_second, refill_us, fairness),
        processors_(1000000, refill_us, fairness) {}

  void SetBytesPerSecond(int64_t bytes_per_second) override { all_->SetBytesPerSecond(bytes_per_second); }

  void SetCompactionRate(int64_t bytes_per_second) { compaction_.Set(bytes_per_second); }

  void SetCompactionProcessors(int64_t us_per_second) { processors_.Set(us_per_second); }

  int64_t CompactionMicros() const { return compaction_us_.load(std::memory_order_relaxed); }

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
      const int64_t spent = SpentMicros();
      compaction_us_.fetch_add(spent, std::memory_order_relaxed);
      processors_.Pass(spent);
      compaction_.Pass(bytes);
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
  OwnLimit compaction_;
  // Of the processors' time, in microseconds a second.
  OwnLimit processors_;
  std::atomic<int64_t> compaction_us_{0};
};

}  // namespace

struct rocksdb_ratelimiter_t {
  std::shared_ptr<RateLimiter> rep;
};

// Given back by `rocksdb_ratelimiter_destroy`.
extern "C" rocksdb_ratelimiter_t* heddle_limiter_create(int64_t bytes_per_second, int64_t refill_us,
                                                        int32_t fairness, void (*thread_begins)()) {
  return new rocksdb_ratelimiter_t{
      std::make_shared<EngineLimits>(bytes_per_second, refill_us, fairness, thread_begins)};
}

extern "C" void heddle_limiter_set_rate(rocksdb_ratelimiter_t* limiter, int64_t bytes_per_second) {
  limiter->rep->SetBytesPerSecond(bytes_per_second);
}

extern "C" int64_t heddle_limiter_rate(const rocksdb_ratelimiter_t* limiter) {
  return limiter->rep->GetBytesPerSecond();
}

// Of one that `heddle_limiter_create` has made.
extern "C" void heddle_limiter_set_compaction_rate(rocksdb_ratelimiter_t* limiter, int64_t bytes_per_second) {
  static_cast<EngineLimits*>(limiter->rep.get())->SetCompactionRate(bytes_per_second);
}

// As above. 0 is no limit.
extern "C" void heddle_limiter_set_compaction_processors(rocksdb_ratelimiter_t* limiter, int64_t us_per_second) {
  static_cast<EngineLimits*>(limiter->rep.get())->SetCompactionProcessors(us_per_second);
}

// As above: the processor time of compaction so far.
extern "C" int64_t heddle_limiter_compaction_us(const rocksdb_ratelimiter_t* limiter) {
  return static_cast<const EngineLimits*>(limiter->rep.get())->CompactionMicros();
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
