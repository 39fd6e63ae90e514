// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compat/flex/2026-08-21/loaded_job.hpp"

#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/flex_stream.hpp"

namespace flex::detail {

bool LoadedJob::ready() const {
  return job != nullptr && job->loaded() && sent != nullptr && sent->stage() != svp::EventStage::Failed;
}

LoadedJob load_job(svp::Runtime& runtime, svp::FlexStream& stream, const std::shared_ptr<const svp::Kernel>& engine,
                   const svp::Job& job) {
  svp::ExecutionPlan plan({job});
  plan.load(runtime, stream, engine);
  return {.job = std::make_shared<const svp::Job>(plan.jobs()[0]), .sent = stream.Record()};
}

}  // namespace flex::detail
