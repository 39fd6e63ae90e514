// SPDX-License-Identifier: Apache-2.0
// The positions along the reduced dimension that take part in a reduction: all but those that the masks name.
#pragma once

#include <algorithm>
#include <cstdint>

#include "firmware/kernels/engine/work.hpp"

namespace kernel::engine {

struct Span {
  std::uint64_t first;
  std::uint64_t end;
};

class Spans {
 public:
  // Masks along other dimensions are not looked at.
  Spans(const Operation& operation, unsigned d);

  unsigned count() const { return count_; }
  const Span& operator[](unsigned i) const { return span_[i]; }

  // All of first … end - 1 take part.
  bool hold(std::uint64_t first, std::uint64_t end) const {
    return std::any_of(span_, span_ + count_, [=](const Span& s) { return s.first <= first && end <= s.end; });
  }
  // The parts of first … end - 1 that take part, ascending.
  template <typename Visit>
  void within(std::uint64_t first, std::uint64_t end, Visit visit) const {
    for (unsigned i = 0; i < count_; ++i) {
      const Span part{std::max(span_[i].first, first), std::min(span_[i].end, end)};
      if (part.first < part.end) visit(part);
    }
  }

 private:
  unsigned count_ = 0;
  Span span_[program::kMaxMasks + 1]{};
};

}  // namespace kernel::engine
