// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/raw_storage.hpp"

#include <atomic>
#include <bit>
#include <new>
#include <optional>
#include <utility>

#include "host_driver/ras/log.hpp"

namespace svp {
namespace {

static_assert(sizeof(void*) == sizeof(std::uint64_t));

// No address of a process, and no allocation index: the slot of one is not 0.
constexpr std::uint64_t kFirstContext = std::uint64_t{1} << 47;
constexpr std::uint64_t kContextStep = std::uint64_t{1} << 24;

constinit std::atomic<std::uint64_t> next_context{kFirstContext};  // inherited: a child counts on from its parent's

std::uint64_t number_of(const void* context) { return std::bit_cast<std::uint64_t>(context); }

bool was_handed_out(std::uint64_t context) {
  return context >= kFirstContext && context < next_context.load() && context % kContextStep == 0;
}

InvalidAllocation not_an_owner(bool released) {
  return {released ? InvalidAllocation::Reason::Released : InvalidAllocation::Reason::Foreign,
          {.layer = Layer::Driver,
           .source = "storage context",
           .outcome = wire::Outcome::Rejected,
           .recoverable = true,
           .next_step = released ? "look for a second delete of it"
                                 : "pass the context that to_raw() returned, and nothing else",
           .message = released ? "the owner of the storage was deleted before"
                               : "the context names no storage of this library"}};
}

}  // namespace

RawStorages& RawStorages::of_this_process() {
  static std::atomic<RawStorages*> current{nullptr};
  RawStorages* now = current.load(std::memory_order_acquire);
  if (now != nullptr && now->process_.is_this()) return *now;
  // Never destroyed: destructors of static objects may still delete storages. A parent's lock may be held for ever.
  std::unique_ptr<RawStorages> made(new RawStorages(next_context.load()));
  if (current.compare_exchange_strong(now, made.get())) return *made.release();
  return *now;
}

void* RawStorages::hand_out(std::shared_ptr<const DeviceStorage> storage) {
  if (storage->allocation_index() == AllocationIndex::Null) return nullptr;
  const std::uint64_t context = next_context.fetch_add(kContextStep);
  const std::scoped_lock lock(mutex_);
  owners_.emplace(context, std::move(storage));
  return std::bit_cast<void*>(context);
}

RawStorages::Table::iterator RawStorages::owner(const void* context) {
  const std::uint64_t number = number_of(context);
  const auto found = owners_.find(number);
  if (found != owners_.end()) return found;
  const bool released = was_handed_out(number);
  if (released && number < first_) throw Error(made_by_the_parent("a storage context"));
  throw not_an_owner(released);
}

std::shared_ptr<const DeviceStorage> RawStorages::find(const void* context) {
  if (context == nullptr) return nullptr;
  const std::scoped_lock lock(mutex_);
  return owner(context)->second;
}

void RawStorages::take_back(void* context) {
  if (context == nullptr) return;
  std::shared_ptr<const DeviceStorage> storage;  // ends after the lock
  const std::scoped_lock lock(mutex_);
  const auto owned = owner(context);
  storage = std::move(owned->second);
  owners_.erase(owned);
}

std::size_t RawStorages::size() const {
  const std::scoped_lock lock(mutex_);
  return owners_.size();
}

namespace {

// What is wrong with the context; nothing when it is the parent's.
std::optional<ErrorInfo> delete_or_explain(void* context) {
  try {
    RawStorages::of_this_process().take_back(context);
  } catch (const InvalidAllocation& error) {
    return error.info();
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void delete_raw_storage(void* context) noexcept {
  try {
    if (const auto mistake = delete_or_explain(context)) ras::report(*mistake, {});
  } catch (const std::bad_alloc&) {
    ras::report({}, {});  // told without its texts
  }
}

}  // namespace svp
