// SPDX-License-Identifier: Apache-2.0
// The handles of the C interface, and the arguments that several of its functions take.
#pragma once

#include <spyre/spyre.h>

#include <cstddef>
#include <memory>
#include <spyre/spyre.hpp>
#include <vector>

struct spyre_context {
  std::unique_ptr<spyre::Context> context;
};
struct spyre_stream {
  spyre::SpyreStream stream;
};
struct spyre_event {
  spyre::Event event;
};
struct spyre_tensor {
  spyre::SpyreTensor tensor;
  spyre::HostShape shape;  // row-major
};
struct spyre_kernel {
  std::shared_ptr<const spyre::Kernel> kernel;
};
struct spyre_program {
  spyre::ExecutionPlan plan;
};
struct spyre_graph {
  spyre::PreparedLaunches launches;
};
struct spyre_capture {
  spyre::StreamCapture capture;
};

namespace spyre::inline v0 {

// The default stream for none. Throws InvalidArgument for neither.
SpyreStream stream_of(spyre_context* context, const spyre_stream* stream);
// Throw InvalidArgument.
LaunchOptions launch_options(const spyre_launch_options* options);
std::vector<SpyreTensor> operands_of(const spyre_tensor* const* tensors, std::size_t count);

}  // namespace spyre::inline v0
