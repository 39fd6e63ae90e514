// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/workbench.hpp"

#include <cstdlib>
#include <stdexcept>

namespace svp::test {

wire::Completion Workbench::run(const wire::ControlBlock& block, std::uint32_t stream) const {
  CompletionRecorder recorder;
  const ControlBlockRequest request{&block, &recorder};
  if (value_or_throw(device().submit(stream, {&request, 1})) != 1) throw std::runtime_error("the stream took no block");
  const auto status = device().wait_until([&] { return recorder.ended() == 1; }, soon());
  if (status == WaitStatus::TimedOut) std::abort();  // the card would call a recorder that is gone
  return recorder.all().front();
}

void Workbench::load(std::uint64_t offset, std::span<const std::byte> image) const {
  if (run(loading(offset, image)).outcome != wire::Outcome::Ok) throw std::runtime_error("the image was not loaded");
}

}  // namespace svp::test
