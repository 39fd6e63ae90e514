// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/current_function.hpp"

#include <string>
#include <utility>

namespace svp {

CurrentFunction::CurrentFunction(std::unique_ptr<Device> device, FlexAllocatorOptions options,
                                 std::shared_ptr<TimelineSharing> sharing)
    : device_(std::move(device)),
      regions_(std::make_shared<CurrentRegions>(device_)),
      host_memory_(device_->host_memory(), device_->host_memory_offset(), device_->mapping()),
      shared_timelines_(std::move(sharing)),
      allocator_(std::make_shared<FlexAllocator>(*regions_, std::move(options))) {
  take_facts();
  allocator_->apply_limit_fraction();
  reserve_correction_slots();
  allocator_->acquire_at_open();
}

void CurrentFunction::close() {
  // Regions are not given back one by one: detaching resets the function, which takes them all.
  regions_->shut();
  allocator_->forget_regions();
  device_->close();
}

void CurrentFunction::abandon() noexcept {
  for (auto* device : {&device_, &device_before_}) keep_for_ever(std::move(*device));
  keep_for_ever(std::move(regions_));
  keep_for_ever(std::move(allocator_));
  host_memory_.abandon();
}

void CurrentFunction::require_own_process() const {
  if (!process_.is_this()) [[unlikely]]
    throw Error(made_by_the_parent("runtime"));
}

std::shared_ptr<Device> CurrentFunction::device() const {
  // Its own calls say what they refuse; nothing changes the pointer here.
  if (!process_.is_this()) return device_;
  const std::lock_guard lock(device_mutex_);
  return device_;
}

void CurrentFunction::take_facts() {
  const wire::DeviceConfig& config = device_->config();
  window_ = device_->window_identity();
  mode_ = config.kind == wire::FunctionKind::Physical ? wire::AddressMode::Pf : wire::AddressMode::Vf;
  all_cores_ = config.cores >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << config.cores) - 1;
}

void CurrentFunction::reserve_correction_slots() {
  slots_ = allocator_->allocate(kCorrectionSlots * kCorrectionSlotBytes, {.type = RegionType::Program});
  slots_at_ = allocator_->resolve(slots_);
  if (slots_at_.address.offset != 0 || slots_at_.region_ordinal != wire::kProgramRegion) {
    throw Error({.layer = Layer::Driver,
                 .source = "correction slots",
                 .recoverable = false,
                 .next_step = "give the runtime a device whose program memory is unused",
                 .message = "the correction slots lie at region " + std::to_string(slots_at_.region_ordinal) +
                            ", offset " + std::to_string(slots_at_.address.offset) +
                            " instead of the start of segment 7"});
  }
}

// What another function has taken meanwhile is acquired when somebody needs it, as if it had not been asked for.
void CurrentFunction::acquire_again() try { allocator_->acquire_at_open(); } catch (const Error& refused) {
  if (refused.info().outcome != wire::Outcome::Rejected) throw;
}

LaunchSite CurrentFunction::launch_site(std::uint32_t stream) const {
  return {.allocator = *allocator_,
          .scratchpads = *scratchpads_,
          .host_memory = host_memory_,
          .correction_slot = {advanced(slots_at_.address, stream * kCorrectionSlotBytes), slots_at_.region_generation},
          .mode = mode_,
          .all_cores = all_cores_};
}

// ---- recovery -------------------------------------------------------------------------------------------------------

void CurrentFunction::shut_regions() { regions_->shut(); }

void CurrentFunction::open_regions() { regions_->open(device_); }

void CurrentFunction::move_host_memory(Device& device) {
  host_memory_.move_to(device.host_memory(), device.host_memory_offset(), device.mapping());
}

void CurrentFunction::replace(std::shared_ptr<Device> device) {
  {
    const std::lock_guard lock(device_mutex_);
    device_before_ = std::exchange(device_, device);
  }
  take_facts();
  shared_timelines_.forget();
  allocator_->forget_regions();
  regions_->open_here(std::move(device));
  reserve_correction_slots();
  acquire_again();
}

}  // namespace svp
