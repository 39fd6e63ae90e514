// SPDX-License-Identifier: Apache-2.0
// A stream of a scenario: it keeps how every block ended, and a trace for the bundle of a failure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/block_builder.hpp"
#include "tests/support/block_stream.hpp"
#include "tests/validation/campaign/artifacts.hpp"

namespace svp::campaign {

using test::BlockBuilder;
using test::endpoint_of;

// "OK, none", or that it did not end: what a claim has seen.
std::string ending(const std::optional<wire::Completion>& end);

class TestStream final : public test::RecordedStream {
 public:
  using test::RecordedStream::BlockStream;

  // Of all of `blocks`: throws svp::Error when the device refuses; false when there was no room for all.
  bool submit(std::span<const wire::ControlBlock> blocks, bool verbatim = false);
  bool submit(const wire::ControlBlock& block) { return submit({&block, 1}); }
  // One block, waited for. Nothing when it did not end in time.
  std::optional<wire::Completion> run(const wire::ControlBlock& block, std::chrono::nanoseconds bound);

  // Those from number `from` on (from 0).
  std::vector<wire::Completion> endings(std::size_t from = 0) const { return sink().all(from); }
  std::size_t ended_with(wire::Outcome outcome) const {
    return static_cast<std::size_t>(std::ranges::count(endings(), outcome, &wire::Completion::outcome));
  }
  // The first kTracedBlocks, in the order of submission.
  std::vector<TracedBlock> trace() const;

 private:
  mutable std::mutex mutex_;
  std::vector<TracedBlock> trace_;
};

// Puts bytes, a kernel's image, at `offset` of the Program region. Throws svp::Error.
void load_image(const BlockBuilder& builder, TestStream& stream, std::uint64_t offset,
                std::span<const std::byte> image);

}  // namespace svp::campaign
