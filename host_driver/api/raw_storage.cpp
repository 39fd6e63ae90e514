// SPDX-License-Identifier: Apache-2.0
// Storages behind void*.
#include "host_driver/frontend/raw_storage.hpp"

#include "host_driver/api/inside.hpp"

namespace spyre::inline v0 {

RawStorage to_raw(const std::shared_ptr<const DeviceStorage>& storage) {
  if (storage == nullptr) throw InvalidArgument("storage", "there is no storage", "allocate one");
  void* const context = svp::RawStorages::of_this_process().hand_out(Inside::of(*storage));
  return {.data = context, .context = context, .deleter = svp::delete_raw_storage};
}

std::shared_ptr<const DeviceStorage> storage_of(const void* context) {
  auto storage = svp::RawStorages::of_this_process().find(context);
  return storage != nullptr ? Inside::storage(std::move(storage)) : nullptr;
}

void delete_raw(void* context) { svp::RawStorages::of_this_process().take_back(context); }

}  // namespace spyre::inline v0
