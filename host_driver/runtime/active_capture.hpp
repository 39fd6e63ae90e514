// SPDX-License-Identifier: Apache-2.0
// A capture that is under way on a stream: FlexStream::BeginCapture() to EndCapture().
#pragma once

#include <cstdint>
#include <thread>

#include "host_driver/runtime/prepared_writer.hpp"

namespace svp {

struct ActiveCapture {
  const std::thread::id owner = std::this_thread::get_id();  // nobody else uses the stream
  const std::uint64_t recoveries;                            // of the stream when it began
  PreparedWriter writer{};
  bool barrier_next = false;
};

}  // namespace svp
