// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/runtime.hpp"

#include <utility>

namespace svp {

Runtime::Runtime(std::unique_ptr<Device> device, RuntimeOptions options, std::unique_ptr<DeviceSource> source)
    : source_(std::move(source)),
      function_(std::move(device), std::move(options.allocator)),
      scheduler_(std::make_unique<Scheduler>(function_, options.staging, options.recovery.policy, options.checksums)),
      recovery_(function_, *scheduler_, source_.get(), options.recovery) {}

Runtime::~Runtime() {
  if (process_.is_this()) {
    scheduler_->close();
    function_.close();
    scheduler_->end_everything();
    return;
  }
  // Threads of the parent may have held any lock of these, and wait at any of their conditions.
  keep_for_ever(std::shared_ptr<Scheduler>(std::move(scheduler_)));
  keep_for_ever(std::shared_ptr<DeviceSource>(std::move(source_)));
  function_.abandon();
}

FlexStream& Runtime::stream(unsigned id) {
  function_.require_own_process();
  return scheduler_->stream(id, recovery_);
}

FlexStream& Runtime::next_stream(StreamPriority priority) {
  function_.require_own_process();
  return stream(scheduler_->next_id(priority));
}

RecoveryReport Runtime::recover(std::optional<ResetLevel> from) {
  function_.require_own_process();
  return recovery_.recover(from);
}

}  // namespace svp
