// SPDX-License-Identifier: Apache-2.0
// Storages that a framework owns through a void* and a deleter (spyre/raw_storage.hpp). A context is a number above
// every address, given out once: it is looked up here and never dereferenced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "host_driver/base/process.hpp"
#include "host_driver/frontend/spyre_allocator.hpp"

namespace svp {

// Of one process. Thread-safe; storages end outside of the lock.
class RawStorages {
 public:
  // In a forked child another one than the parent's.
  static RawStorages& of_this_process();

  // One more owner. Null for a storage without memory.
  void* hand_out(std::shared_ptr<const DeviceStorage> storage);
  // Null: null. Throws InvalidAllocation (Foreign, Released), Error (handed out by the parent of a forked child).
  std::shared_ptr<const DeviceStorage> find(const void* context);
  // Null is ignored. Throws as find().
  void take_back(void* context);
  std::size_t size() const;  // owners

 private:
  using Table = std::unordered_map<std::uint64_t, std::shared_ptr<const DeviceStorage>>;

  explicit RawStorages(std::uint64_t first) : first_(first) {}
  Table::iterator owner(const void* context);

  const OwnerProcess process_;
  const std::uint64_t first_;  // contexts below it are the parent's
  mutable std::mutex mutex_;
  Table owners_;
};

// take_back() for destructors: what it would throw goes to the log of errors. In a forked child it leaves alone what
// the parent handed out.
void delete_raw_storage(void* context) noexcept;

}  // namespace svp
