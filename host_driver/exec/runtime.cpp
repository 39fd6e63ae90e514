// SPDX-License-Identifier: Apache-2.0
#include "host_driver/exec/runtime.hpp"

#include <string>
#include <utility>

namespace flex {

Runtime::Runtime(std::unique_ptr<Device> device, RuntimeOptions options)
    : device_(std::move(device)),
      host_memory_(device_->host_memory(), device_->host_memory_offset(), device_->mapping()),
      allocator_(std::make_shared<FlexAllocator>(device_->region_source(), std::move(options.allocator))),
      scheduler_(std::make_unique<Scheduler>(*device_, host_memory_, options.staging, options.checksums)) {
  reserve_correction_slots();
}

Runtime::~Runtime() {
  scheduler_->close();
  // Regions are not given back one by one: detaching resets the function, which takes them all.
  allocator_->forget_regions();
  device_.reset();
}

void Runtime::reserve_correction_slots() {
  slots_ = allocator_->allocate(kCorrectionSlots * wire::kMaxCorrectionBytes, {.type = RegionType::Program});
  slots_at_ = allocator_->resolve(slots_);
  if (slots_at_.address.offset != 0 || slots_at_.region_ordinal != wire::kProgramRegion) {
    throw Error({.layer = Layer::Driver,
                 .culprit = "correction slots",
                 .recoverable = false,
                 .next_step = "give the runtime a device whose program memory is unused",
                 .message = "the correction slots lie at region " + std::to_string(slots_at_.region_ordinal) +
                            ", offset " + std::to_string(slots_at_.address.offset) +
                            " instead of the start of segment 7"});
  }
}

LaunchSite Runtime::launch_site(std::uint32_t stream) const {
  const wire::DeviceConfig& config = device_->config();
  return {
      .allocator = *allocator_,
      .host_memory = host_memory_,
      .correction_slot = {advanced(slots_at_.address, stream * wire::kMaxCorrectionBytes), slots_at_.region_generation},
      .mode = config.kind == wire::FunctionKind::Physical ? wire::AddressMode::Pf : wire::AddressMode::Vf,
      .all_cores = config.cores >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << config.cores) - 1};
}

FlexStream& Runtime::stream(unsigned id) {
  if (id >= streams_.size()) {
    throw InvalidArgument("stream", "stream " + std::to_string(id) + " does not exist",
                          "use 0 … " + std::to_string(streams_.size() - 1));
  }
  const std::lock_guard guard(streams_mutex_);
  if (streams_[id] == nullptr) {
    std::uint32_t on_card = 0;  // open from the start
    if (id != 0) {
      auto opened = device_->open_stream(id > kStreamsPerPool ? StreamPriority::High : StreamPriority::Low);
      if (!opened) throw Error(std::move(opened.error()));
      on_card = *opened;
    }
    streams_[id] = std::make_unique<FlexStream>(*this, scheduler_->channel(on_card));
  }
  return *streams_[id];
}

FlexStream& Runtime::next_stream(StreamPriority priority) {
  const bool high = priority == StreamPriority::High;
  unsigned id = 0;
  {
    const std::lock_guard guard(streams_mutex_);
    unsigned& next = next_[high ? 1 : 0];
    id = 1 + next + (high ? kStreamsPerPool : 0);
    next = (next + 1) % kStreamsPerPool;
  }
  return stream(id);
}

}  // namespace flex
