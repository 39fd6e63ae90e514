// SPDX-License-Identifier: Apache-2.0
// Storages that a framework owns through a void* and a deleter (spyre/raw_storage.hpp). The context is the storage's
// allocation index, a number above every address: it is looked up here and never dereferenced.
#pragma once

#include <cstddef>
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

  // Null for a storage without memory. One more take_back() is due then.
  void* hand_out(std::shared_ptr<const DeviceStorage> storage);
  // Null: null. Throws InvalidAllocation (Foreign, Released), Error (handed out by the parent of a forked child).
  std::shared_ptr<const DeviceStorage> find(const void* context);
  // Null is ignored. Throws as find().
  void take_back(void* context);
  std::size_t size() const;  // contexts that are handed out

 private:
  struct Owned {
    std::shared_ptr<const DeviceStorage> storage;
    std::size_t count = 0;
  };
  using Table = std::unordered_map<AllocationIndex, Owned>;

  explicit RawStorages(bool of_a_child) : of_a_child_(of_a_child) {}
  Table::iterator entry(const void* context);

  const OwnerProcess process_;
  const bool of_a_child_;
  mutable std::mutex mutex_;
  Table owned_;
};

// take_back() for destructors: what it would throw goes to the log of errors. In a forked child it leaves alone what
// the parent handed out.
void delete_raw_storage(void* context) noexcept;

}  // namespace svp
