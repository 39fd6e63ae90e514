// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/raw_storage.hpp"

#include <atomic>
#include <bit>
#include <new>
#include <utility>

#include "host_driver/ras/log.hpp"

namespace svp {
namespace {

static_assert(sizeof(void*) == sizeof(AllocationIndex));

AllocationIndex index_of(const void* context) { return std::bit_cast<AllocationIndex>(context); }

InvalidAllocation not_handed_out(const void* context) {
  const bool released = was_given_out(index_of(context));
  return {released ? InvalidAllocation::Reason::Released : InvalidAllocation::Reason::Foreign,
          {.layer = Layer::Driver,
           .source = "storage context",
           .outcome = wire::Outcome::Rejected,
           .recoverable = true,
           .next_step = released ? "look for a second delete of the same pointer"
                                 : "pass the context that to_raw() returned, and nothing else",
           .message = released ? "the context names a storage that was deleted before, or never handed out"
                               : "the context names no storage of this library"}};
}

}  // namespace

RawStorages& RawStorages::of_this_process() {
  static std::atomic<RawStorages*> current{nullptr};
  RawStorages* now = current.load(std::memory_order_acquire);
  if (now != nullptr && now->process_.is_this()) return *now;
  // Never destroyed: destructors of static objects may still delete storages. A parent's lock may be held for ever.
  std::unique_ptr<RawStorages> made(new RawStorages(now != nullptr));
  if (current.compare_exchange_strong(now, made.get())) return *made.release();
  return *now;
}

void* RawStorages::hand_out(std::shared_ptr<const DeviceStorage> storage) {
  const AllocationIndex index = storage->allocation_index();
  if (index == AllocationIndex::Null) return nullptr;
  const std::scoped_lock lock(mutex_);
  Owned& owned = owned_[index];
  if (owned.count++ == 0) owned.storage = std::move(storage);
  return std::bit_cast<void*>(index);
}

RawStorages::Table::iterator RawStorages::entry(const void* context) {
  const auto found = owned_.find(index_of(context));
  if (found != owned_.end()) return found;
  InvalidAllocation unknown = not_handed_out(context);
  if (of_a_child_ && unknown.reason() == InvalidAllocation::Reason::Released) {
    throw Error(made_by_the_parent("a storage context"));
  }
  throw unknown;
}

std::shared_ptr<const DeviceStorage> RawStorages::find(const void* context) {
  if (context == nullptr) return nullptr;
  const std::scoped_lock lock(mutex_);
  return entry(context)->second.storage;
}

void RawStorages::take_back(void* context) {
  if (context == nullptr) return;
  std::shared_ptr<const DeviceStorage> last;  // ends after the lock
  const std::scoped_lock lock(mutex_);
  const auto owned = entry(context);
  if (--owned->second.count != 0) return;
  last = std::move(owned->second.storage);
  owned_.erase(owned);
}

std::size_t RawStorages::size() const {
  const std::scoped_lock lock(mutex_);
  return owned_.size();
}

void delete_raw_storage(void* context) noexcept {
  try {
    RawStorages::of_this_process().take_back(context);
  } catch (const InvalidAllocation& error) {
    ras::report(error.info(), {});
  } catch (const Error&) {
    // The parent's.
  } catch (const std::bad_alloc&) {
    // Of the text that would have said so.
  }
}

}  // namespace svp
