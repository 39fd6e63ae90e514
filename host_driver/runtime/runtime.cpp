// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/runtime.hpp"

#include <string>
#include <utility>

namespace svp {

Runtime::Runtime(std::unique_ptr<Device> device, RuntimeOptions options, std::unique_ptr<DeviceSource> source)
    : recovery_(options.recovery),
      source_(std::move(source)),
      device_(std::move(device)),
      regions_(std::make_shared<CurrentRegions>(device_)),
      host_memory_(device_->host_memory(), device_->host_memory_offset(), device_->mapping()),
      allocator_(std::make_shared<FlexAllocator>(*regions_, std::move(options.allocator))),
      scheduler_(std::make_unique<Scheduler>(
          host_memory_, options.staging,
          ChannelRules{.retry_aborted = recovery_.policy == RecoveryPolicy::Recover,
                       .first_failure = recovery_.policy == RecoveryPolicy::FailFast ? &first_failure_ : nullptr,
                       .checksums = options.checksums})) {
  take_facts();
  reserve_correction_slots();
}

Runtime::~Runtime() {
  if (!process_.is_this()) {
    abandon();
    return;
  }
  scheduler_->close();
  // Regions are not given back one by one: detaching resets the function, which takes them all.
  regions_->shut();
  allocator_->forget_regions();
  device_->close();
  scheduler_->end_everything();
}

// Threads of the parent may have held any lock of these, and wait at any of their conditions.
void Runtime::abandon() noexcept {
  keep_for_ever(std::shared_ptr<Scheduler>(std::move(scheduler_)));
  keep_for_ever(std::shared_ptr<DeviceSource>(std::move(source_)));
  for (auto* device : {&device_, &device_before_}) keep_for_ever(std::move(*device));
  keep_for_ever(std::move(regions_));
  keep_for_ever(std::move(allocator_));
  host_memory_.abandon();
}

void Runtime::require_own_process() const {
  if (!process_.is_this()) [[unlikely]]
    throw Error(made_by_the_parent("runtime"));
}

std::shared_ptr<Device> Runtime::current_device() const {
  // Its own calls say what they refuse; nothing changes the pointer here.
  if (!process_.is_this()) return device_;
  const std::lock_guard lock(device_mutex_);
  return device_;
}

void Runtime::take_facts() {
  const wire::DeviceConfig& config = device_->config();
  window_ = device_->window_identity();
  mode_ = config.kind == wire::FunctionKind::Physical ? wire::AddressMode::Pf : wire::AddressMode::Vf;
  all_cores_ = config.cores >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << config.cores) - 1;
}

void Runtime::reserve_correction_slots() {
  slots_ = allocator_->allocate(kCorrectionSlots * wire::kMaxCorrectionBytes, {.type = RegionType::Program});
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

LaunchSite Runtime::launch_site(std::uint32_t stream) const {
  return {
      .allocator = *allocator_,
      .host_memory = host_memory_,
      .correction_slot = {advanced(slots_at_.address, stream * wire::kMaxCorrectionBytes), slots_at_.region_generation},
      .mode = mode_,
      .all_cores = all_cores_};
}

Expected<std::uint32_t> Runtime::open_on_card(Device& device, unsigned id) const {
  if (id == 0) return 0;  // open from the start
  return device.open_stream(id > kStreamsPerPool ? StreamPriority::High : StreamPriority::Low);
}

FlexStream& Runtime::stream(unsigned id) {
  require_own_process();
  if (id >= streams_.size()) {
    throw InvalidArgument("stream", "stream " + std::to_string(id) + " does not exist",
                          "use 0 … " + std::to_string(streams_.size() - 1));
  }
  // Also during a recovery, which holds the lock throughout.
  if (FlexStream* ready = ready_[id].load(std::memory_order_acquire)) return *ready;
  const std::lock_guard guard(streams_mutex_);
  if (streams_[id] == nullptr) {
    const auto device = current_device();
    const auto on_card = open_on_card(*device, id);
    if (!on_card) throw Error(on_card.error());
    channels_[id] = &scheduler_->add_channel(device, *on_card);
    streams_[id] = std::make_unique<FlexStream>(*this, *channels_[id]);
    ready_[id].store(streams_[id].get(), std::memory_order_release);
  }
  return *streams_[id];
}

FlexStream& Runtime::next_stream(StreamPriority priority) {
  const bool high = priority == StreamPriority::High;
  const unsigned next = next_[high ? 1 : 0].fetch_add(1, std::memory_order_relaxed) % kStreamsPerPool;
  return stream(1 + next + (high ? kStreamsPerPool : 0));
}

}  // namespace svp
