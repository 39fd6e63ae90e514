// SPDX-License-Identifier: Apache-2.0
// Device memory for frameworks that own memory by three words: a data pointer, a context, and a function that deletes
// the context (at::DataPtr of PyTorch). Reference-counted; mistakes are recognised, never followed.
#pragma once

#include <spyre/export.h>

#include <memory>
#include <spyre/allocator.hpp>

namespace spyre::inline v0 {

// `data` is equal to `context`, as c10::Allocator::raw_allocate() needs it: a number that names this owner and is given
// out once in a process. It is above every address: to follow it is a fault, and it is never taken for a pointer. No
// arithmetic on it. Null for a storage without memory, which nobody has to delete.
struct RawStorage {
  void* data = nullptr;
  void* context = nullptr;
  // delete_raw() for destructors: throws nothing. What delete_raw() would throw goes to the log of errors
  // (docs/errors.md). In a process that was forked from the one with the storage it does nothing.
  void (*deleter)(void* context) noexcept = nullptr;
};

// Another owner of the storage's memory, until `deleter` or delete_raw() is called with its context, once. The memory
// is freed when all of them and every shared_ptr of it are gone, by the same rules (DeviceStorage). Throws
// InvalidArgument for an empty pointer.
SPYRE_API RawStorage to_raw(const std::shared_ptr<const DeviceStorage>& storage);

// The storage behind a context (or data pointer) that is not deleted: for record_stream(), for its allocation index in
// a launch, or to keep it. Null: empty. Throws InvalidAllocation: Released (deleted before), Foreign (any other
// pointer); Error in a process that was forked from the one with the storage.
SPYRE_API std::shared_ptr<const DeviceStorage> storage_of(const void* context);

// Gives the owner up. Null is ignored. Throws as storage_of(); nothing changed then.
SPYRE_API void delete_raw(void* context);

}  // namespace spyre::inline v0
