// SPDX-License-Identifier: Apache-2.0
// The C interface: functions of the host, shared events, prepared launches and captures.
#include <spyre/spyre.h>

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "host_driver/api/c_handles.hpp"
#include "host_driver/api/c_support.hpp"
#include "host_driver/api/inside.hpp"

using spyre::guarded;
using spyre::require;

namespace spyre::inline v0 {

SpyreStream stream_of(spyre_context* context, const spyre_stream* stream) {
  return stream != nullptr ? stream->stream : require(context, "context").context->default_stream();
}

LaunchOptions launch_options(const spyre_launch_options* options) {
  spyre_launch_options given{};
  if (options != nullptr) given = copy_of_options(*options);
  if (given.pipeline_barrier > 1) {
    throw InvalidArgument("pipeline_barrier", "pipeline_barrier is neither 0 nor 1", "give 0 or 1");
  }
  return {.allow_tiled_launch = given.refuse_tiled_launch == 0,
          .core_mask = given.core_mask,
          .budget_slices = given.budget_slices,
          .pipeline_barrier = given.pipeline_barrier != 0,
          .keep_alive = {}};
}

std::vector<SpyreTensor> operands_of(const spyre_tensor* const* tensors, std::size_t count) {
  svp::require_operands(count);
  if (count != 0) (void)require(tensors, "tensors");
  std::vector<SpyreTensor> operands;
  operands.reserve(count);
  for (const spyre_tensor* tensor : std::span(tensors, count)) operands.push_back(require(tensor, "tensors").tensor);
  return operands;
}

}  // namespace spyre::inline v0

namespace {

spyre::Job job_of(const spyre_program* program) { return require(program, "program").plan.jobs().at(0); }

// A function of the program in C, which tells a failure by its result.
std::function<void()> host_function(spyre_host_function function, void* data) {
  (void)require(reinterpret_cast<const void*>(function), "function");
  return [function, data] {
    const int result = function(data);
    if (result != 0) throw std::runtime_error("it returned " + std::to_string(result));
  };
}

}  // namespace

spyre_status spyre_launch_host(spyre_context* context, spyre_stream* stream, spyre_host_function function, void* data) {
  return guarded([&] { spyre::stream_of(context, stream).LaunchHost(host_function(function, data)); });
}

spyre_status spyre_event_share(const spyre_event* event, spyre_shared_event* shared) {
  return guarded([&] {
    static_assert(sizeof shared->bytes == spyre::SharedEvent::kBytes);
    (void)require(shared, "shared");
    const spyre::SharedEvent made = require(event, "event").event.share();
    std::memcpy(shared->bytes, made.bytes.data(), sizeof shared->bytes);
  });
}

namespace {

spyre::SharedEvent event_of(const spyre_shared_event* shared) {
  spyre::SharedEvent event;
  std::memcpy(event.bytes.data(), require(shared, "shared").bytes, event.bytes.size());
  return event;
}

}  // namespace

spyre_status spyre_stream_wait_shared(spyre_context* context, spyre_stream* stream, const spyre_shared_event* shared) {
  return guarded([&] { spyre::stream_of(context, stream).Wait(event_of(shared)); });
}

spyre_status spyre_prepare(spyre_context* context, spyre_stream* stream, const spyre_program* program,
                           const spyre_tensor* const* tensors, size_t count, const spyre_launch_options* options,
                           spyre_graph** graph) {
  return guarded([&] {
    (void)require(graph, "graph");
    *graph = new spyre_graph{spyre::Prepare(spyre::stream_of(context, stream), job_of(program),
                                            spyre::operands_of(tensors, count), spyre::launch_options(options))};
  });
}
void spyre_graph_release(spyre_graph* graph) { delete graph; }
size_t spyre_graph_size(const spyre_graph* graph) { return graph != nullptr ? graph->launches.size() : 0; }
size_t spyre_graph_events(const spyre_graph* graph) { return graph != nullptr ? graph->launches.events() : 0; }
size_t spyre_graph_slots(const spyre_graph* graph) { return graph != nullptr ? graph->launches.slots() : 0; }

spyre_status spyre_graph_launch(spyre_context* context, spyre_stream* stream, const spyre_graph* graph,
                                const spyre_event* const* slots, size_t slot_count, spyre_event** events,
                                size_t event_count) {
  return guarded([&] {
    const spyre::PreparedLaunches& launches = require(graph, "graph").launches;
    if (event_count != 0 && event_count != launches.events()) {
      throw spyre::InvalidArgument("event_count",
                                   std::to_string(event_count) + " events are asked for, and a launch records " +
                                       std::to_string(launches.events()),
                                   "give spyre_graph_events(), or 0");
    }
    if (event_count != 0) (void)require(events, "events");
    if (slot_count != 0) (void)require(slots, "slots");
    std::vector<spyre::Event> awaited;
    awaited.reserve(slot_count);
    for (const spyre_event* event : std::span(slots, slot_count)) {
      awaited.push_back(event != nullptr ? event->event : spyre::Event());
    }
    std::vector<std::unique_ptr<spyre_event>> made(event_count);
    for (auto& event : made) event = std::make_unique<spyre_event>();
    const spyre::Replay replay = launches.Launch(spyre::stream_of(context, stream), awaited);
    for (size_t i = 0; i < event_count; ++i) {
      made[i]->event = replay.events[i];
      events[i] = made[i].release();
    }
  });
}

spyre_status spyre_graph_patch(spyre_context* context, spyre_stream* stream, const spyre_graph* graph, size_t launch,
                               const spyre_tensor* const* tensors, size_t count) {
  return guarded([&] {
    const spyre::PreparedLaunches& launches = require(graph, "graph").launches;
    launches.Patch(spyre::stream_of(context, stream), launch, spyre::operands_of(tensors, count));
  });
}

spyre_status spyre_stream_begin_capture(spyre_context* context, spyre_stream* stream) {
  return guarded([&] { spyre::stream_of(context, stream).BeginCapture(); });
}
spyre_status spyre_stream_end_capture(spyre_context* context, spyre_stream* stream, spyre_graph** graph) {
  return guarded([&] {
    (void)require(graph, "graph");
    *graph = new spyre_graph{spyre::stream_of(context, stream).EndCapture()};
  });
}

spyre_status spyre_capture_create(spyre_context* context, spyre_stream* stream, spyre_capture** capture) {
  return guarded([&] {
    (void)require(capture, "capture");
    *capture = new spyre_capture{spyre::StreamCapture(spyre::stream_of(context, stream))};
  });
}
void spyre_capture_release(spyre_capture* capture) { delete capture; }

spyre_status spyre_capture_launch(spyre_capture* capture, const spyre_program* program,
                                  const spyre_tensor* const* tensors, size_t count,
                                  const spyre_launch_options* options) {
  return guarded([&] {
    require(capture, "capture")
        .capture.Launch(job_of(program), spyre::operands_of(tensors, count), spyre::launch_options(options));
  });
}
spyre_status spyre_capture_launch_host(spyre_capture* capture, spyre_host_function function, void* data) {
  return guarded([&] { require(capture, "capture").capture.LaunchHost(host_function(function, data)); });
}
spyre_status spyre_capture_record(spyre_capture* capture, spyre_event** event) {
  return guarded([&] {
    (void)require(event, "event");
    auto made = std::make_unique<spyre_event>();
    made->event = require(capture, "capture").capture.Record();
    *event = made.release();
  });
}
spyre_status spyre_capture_wait(spyre_capture* capture, const spyre_event* event) {
  return guarded([&] { require(capture, "capture").capture.Wait(require(event, "event").event); });
}
spyre_status spyre_capture_wait_shared(spyre_capture* capture, const spyre_shared_event* shared) {
  return guarded([&] { require(capture, "capture").capture.Wait(event_of(shared)); });
}
spyre_status spyre_capture_wait_slot(spyre_capture* capture) {
  return guarded([&] { (void)require(capture, "capture").capture.WaitSlot(); });
}
spyre_status spyre_capture_add(spyre_capture* capture, const spyre_capture* child) {
  return guarded([&] { require(capture, "capture").capture.Add(require(child, "child").capture); });
}
spyre_status spyre_capture_instantiate(const spyre_capture* capture, spyre_graph** graph) {
  return guarded([&] {
    (void)require(graph, "graph");
    *graph = new spyre_graph{require(capture, "capture").capture.Instantiate()};
  });
}
