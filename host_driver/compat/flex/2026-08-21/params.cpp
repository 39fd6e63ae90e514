// SPDX-License-Identifier: Apache-2.0
// What launches are given.
#include <flex/flex.hpp>
#include <utility>

#include "host_driver/compat/flex/2026-08-21/context.hpp"

namespace flex {

DmaParams* createDmaParams(void* host, size_t bytes, bool to_device, const CompositeAddress* device,
                           std::shared_ptr<data_conversion_info> conversion) {
  auto params = std::make_unique<DmaParams>();
  detail::Access::set(*params, host, bytes, to_device, device, std::move(conversion));
  return params.release();
}
void destroyDmaParams(DmaParams* params) { delete params; }

ComputeParams* createComputeParams(const CompositeAddress* program, std::vector<const CompositeAddress*> tensors,
                                   std::string name, uint64_t bootstrap_offset) {
  auto params = std::make_unique<ComputeParams>();
  detail::Access::set(*params, program, std::move(tensors), std::move(name), bootstrap_offset);
  return params.release();
}
void destroyComputeParams(ComputeParams* params) { delete params; }

HostCallbackParams* createHostCallbackParams(std::function<void(void*)> callback, void* argument,
                                             bool pipeline_barrier) {
  auto params = std::make_unique<HostCallbackParams>();
  detail::Access::set(*params, std::move(callback), argument, pipeline_barrier);
  return params.release();
}
void destroyHostCallbackParams(HostCallbackParams* params) { delete params; }

}  // namespace flex
