// SPDX-License-Identifier: Apache-2.0
// Reads what the card tells of its work (shared/trace.hpp) into the trace of this process. The card writes as it likes:
// an entry is copied once and looked at again, and what is no entry is counted as lost.
#pragma once

#include <cstdint>
#include <optional>

#include "host_driver/trace/recorder.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/trace.hpp"

namespace svp {

class CardTrace {
 public:
  // `card`: the function's number in the recorder's file. TRACE has been answered.
  CardTrace(const Window& window, trace::Recorder& recorder, std::uint32_t card)
      : window_(window), recorder_(recorder), card_(card) {}

  // Everything that the card has written since the last call, at most a ring of it. One thread at a time.
  void drain();

 private:
  wire::TraceEntry& place(std::uint64_t number) const {
    return window_.at<wire::TraceEntry>(wire::kTraceRing.offset +
                                        (number - 1) % wire::kTraceEntries * sizeof(wire::TraceEntry));
  }
  void skip_to(std::uint64_t number);
  void record(const wire::TraceEntry& entry, std::uint64_t now);
  void record_lost(std::uint64_t entries, std::uint64_t now);

  const Window& window_;
  trace::Recorder& recorder_;
  const std::uint32_t card_;
  std::uint64_t next_ = 1;
  std::uint64_t missed_ = 0;  // and not recorded yet
};

}  // namespace svp
