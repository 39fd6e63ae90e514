// SPDX-License-Identifier: Apache-2.0
// FlexAllocator when memory is short: waiting for work under way, the memory-pressure callbacks, the typed error.
#include "host_driver/memory/flex_allocator.hpp"

namespace svp {
namespace {

thread_local bool in_memory_pressure_callback = false;

// Allocating inside a callback is allowed, but must not call it again.
struct InsideCallback {
  InsideCallback() { in_memory_pressure_callback = true; }
  ~InsideCallback() { in_memory_pressure_callback = false; }
};

// The same function, whose copies are copies of a pointer: the allocator copies it with its lock held, and a copy of
// what the program has put into it may want a lock of the program's (Python's).
template <typename Argument>
std::function<void(Argument)> shared(std::function<void(Argument)> function) {
  if (!function) return nullptr;
  return [kept = std::make_shared<const std::function<void(Argument)>>(std::move(function))](Argument argument) {
    (*kept)(argument);
  };
}

}  // namespace

const char* FlexAllocator::advice(const MemoryShortage& missing, const AllocationPolicy& policy) const {
  const bool one_block = policy.placement != Placement::Interleave;
  if (missing.requested > kMaxRegionBytes && one_block) return "split the tensor: no block exceeds 16 GiB";
  if (missing.limit != 0) return "free tensors, or raise the memory limit";
  if (missing.free_bytes >= missing.requested && one_block) {
    return "free neighbouring blocks: memory is fragmented; or allocate it interleaved, in several of them";
  }
  const std::scoped_lock lock(mutex_);
  if (policy.type == RegionType::Tensor && regions_left() == 0) {
    return "free tensors, or use smaller ones; as many regions as may be held are held: where they are smaller than "
           "16 GiB, larger ones hold more (MemoryOptions::region_bytes, max_regions)";
  }
  return "free tensors, or use smaller ones";
}

AllocationIndex FlexAllocator::allocate(std::uint64_t bytes) { return allocate(bytes, options_.default_policy); }

AllocationIndex FlexAllocator::allocate(std::uint64_t bytes, const AllocationPolicy& policy) {
  const bool tensor = policy.type == RegionType::Tensor;
  return allocate_or_throw(bytes, policy, tensor ? Untouched::WithinBudget : Untouched::Any);
}

AllocationIndex FlexAllocator::allocate_or_throw(std::uint64_t bytes, const AllocationPolicy& policy,
                                                 Untouched untouched) {
  require_own_process();
  check_placement(policy);
  if (bytes == 0) return AllocationIndex::Null;
  Attempt attempt = attempt_everything(bytes, policy, untouched);
  if (attempt) return *attempt;
  if (attempt.error().error) throw Error(*attempt.error().error);
  const MemoryShortage& missing = attempt.error().shortage;
  throw OutOfMemory(std::string(type_name(policy.type)) + " memory", missing, advice(missing, policy));
}

Expected<AllocationIndex> FlexAllocator::try_allocate(std::uint64_t bytes) {
  return try_allocate(bytes, options_.default_policy);
}

Expected<AllocationIndex> FlexAllocator::try_allocate(std::uint64_t bytes, const AllocationPolicy& policy) try {
  return allocate(bytes, policy);
} catch (const Error& error) {
  return std::unexpected(error.info());
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception& error) {
  return std::unexpected(ErrorInfo{.layer = Layer::Driver,
                                   .source = "memory-pressure callback",
                                   .outcome = wire::Outcome::Rejected,
                                   .recoverable = true,
                                   .next_step = "correct the callback, or remove it",
                                   .message = std::string("it failed: ") + error.what()});
}

FlexAllocator::Attempt FlexAllocator::attempt_everything(std::uint64_t bytes, const AllocationPolicy& policy,
                                                         Untouched untouched) {
  Attempt attempt = allocate_or_wait(bytes, policy, untouched);
  if (attempt || attempt.error().error) return attempt;
  if (make_room_in_limit(attempt.error().shortage)) attempt = allocate_or_wait(bytes, policy, Untouched::Any);
  if (attempt || attempt.error().error) return attempt;
  if (!in_memory_pressure_callback) {
    if (auto again = allocate_after_callbacks(bytes, policy, attempt.error().shortage)) attempt = std::move(*again);
    if (attempt || attempt.error().error) return attempt;
  }
  const std::scoped_lock lock(mutex_);
  usage_.failed();
  return attempt;
}

FlexAllocator::Attempt FlexAllocator::allocate_or_wait(std::uint64_t bytes, const AllocationPolicy& policy,
                                                       Untouched untouched) {
  using Clock = std::chrono::steady_clock;
  // Others may take what is freed, again and again: the deadline is one for all attempts, from the first that waits,
  // and one more follows it. A clock costs as much as a sixth of an allocation: most need none.
  std::optional<Clock::time_point> deadline;
  for (;;) {
    const bool last = deadline && Clock::now() >= *deadline;
    std::unique_lock lock(mutex_, std::defer_lock);
    Attempt attempt = allocate_or_grow(bytes, policy, untouched, lock);
    if (attempt || attempt.error().error) return attempt;
    if (attempt.error().beyond_budget) {
      if (!deadline) deadline = Clock::now() + options_.timeout;
      if (!await_any_freed(lock, *deadline)) untouched = Untouched::Any;
      continue;
    }
    if (last) return attempt;
    if (!deadline) deadline = Clock::now() + options_.timeout;
    if (!await_freed(lock, attempt.error().shortage, *deadline)) return attempt;
  }
}

std::optional<FlexAllocator::Attempt> FlexAllocator::allocate_after_callbacks(std::uint64_t bytes,
                                                                              const AllocationPolicy& policy,
                                                                              const MemoryShortage& missing) {
  const InsideCallback guard;
  MemoryPressureCallback callback;  // these go after the lock
  LockedMemoryPressureCallback with_lock;
  std::unique_lock lock(mutex_);
  callback = on_memory_pressure_;
  with_lock = on_memory_pressure_locked_;
  if (!callback && !with_lock) return std::nullopt;
  usage_.retried();
  if (with_lock) {
    call_with_lock(with_lock, lock);
    if (lock.owns_lock() && lock.mutex() == &mutex_) {  // nobody else was served since it freed something
      Attempt attempt = allocate_held(bytes, policy);
      if (attempt) return attempt;
    }
  }
  if (lock.owns_lock()) lock.unlock();
  if (callback) callback(missing);
  return allocate_or_wait(bytes, policy, Untouched::Any);
}

// A lock that was released (std::unique_lock::release()) unlocks nothing any more: the mutex would stay locked for
// ever.
void FlexAllocator::call_with_lock(const LockedMemoryPressureCallback& callback, std::unique_lock<std::mutex>& lock) {
  const auto left_locked = [&] {
    const bool returned = lock.owns_lock() && lock.mutex() == &mutex_;
    return !returned && unlock_if_mine(mutex_);
  };
  try {
    callback(lock);
  } catch (...) {
    (void)left_locked();
    throw;
  }
  if (!left_locked()) return;
  throw Error({.layer = Layer::Driver,
               .source = "memory-pressure callback",
               .outcome = wire::Outcome::Rejected,
               .recoverable = true,
               .next_step = "call unlock() and lock() on it, not release()",
               .message = "it released the lock that it was given, and left the allocator's mutex locked"});
}

bool FlexAllocator::await_freed(std::unique_lock<std::mutex>& lock, const MemoryShortage& missing,
                                std::chrono::steady_clock::time_point deadline) {
  if (doomed_bytes_ == 0 || doomed_bytes_ + missing.free_bytes < missing.requested) return false;
  const std::uint64_t seen = freed_late_;
  return freed_.wait_until(lock, deadline, [&] { return freed_late_ != seen || doomed_bytes_ == 0; });
}

void FlexAllocator::set_memory_pressure_callback(MemoryPressureCallback callback) {
  require_own_process();
  callback = shared(std::move(callback));
  const std::scoped_lock lock(mutex_);
  on_memory_pressure_.swap(callback);  // the one before ends outside of the lock
}

void FlexAllocator::set_locked_memory_pressure_callback(LockedMemoryPressureCallback callback) {
  require_own_process();
  callback = shared(std::move(callback));
  const std::scoped_lock lock(mutex_);
  on_memory_pressure_locked_.swap(callback);
}

}  // namespace svp
