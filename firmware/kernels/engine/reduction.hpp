// SPDX-License-Identifier: Apache-2.0
// What all reductions have in common: which sticks are reduced into which stick.
//
// Along a dimension that is not the stick dimension, a line is one stick of the output: the results of its lanes.
// Along the stick dimension, a line is one element of the output, which then fills a stick.
#pragma once

#include <bit>
#include <cstdint>

#include "firmware/kernels/engine/axes.hpp"
#include "firmware/kernels/engine/spans.hpp"
#include "firmware/kernels/engine/stretch.hpp"
#include "firmware/kernels/vector.hpp"

namespace kernel::engine {

inline constexpr unsigned kLinesTogether = 8;  // that are reduced along the stick at the same time

struct Line {
  std::uint64_t from;  // of the input at position 0
  std::uint64_t to;    // the output's stick
  unsigned lanes;      // of the output that are not padding
};

// One stick of each of eight lines lies behind that of the line before.
inline bool are_adjacent(const Line* lines) {
  bool adjacent = true;
  for (unsigned i = 1; i < kLinesTogether; ++i) {
    adjacent = adjacent && lines[i].from == lines[0].from + i * wire::kStickBytes;
  }
  return adjacent;
}

class Reduction {
 public:
  explicit Reduction(const Work& work);

  Refusal refusal() const { return refusal_; }
  bool along_stick() const { return along_stick_; }
  bool spreads() const { return spreads_; }  // the output has no stick dimension
  std::uint32_t extent() const { return extent_; }
  const Spans& spans() const { return spans_; }

  // The stick that holds a position, of a line.
  std::uint64_t stick(const Line& line, std::uint64_t position) const {
    return line.from + axis_.stick(static_cast<std::uint32_t>(position));
  }
  // The same for all lines: bytes from the stick of position 0.
  std::uint64_t offset(std::uint64_t position) const { return axis_.stick(static_cast<std::uint32_t>(position)); }
  // Across sticks: positions that take part, ascending, as stretches of sticks at equal distances.
  template <typename Visit>
  void for_each_stretch(const Line& line, std::uint64_t first, std::uint64_t end, Visit visit) const {
    spans_.within(first, end, [&](const Span& span) {
      std::uint64_t part_end = 0;
      for (std::uint64_t p = span.first; p < span.end; p = part_end) {
        part_end = axis_.part != 0 ? std::min(span.end, (p / axis_.part + 1) * axis_.part) : span.end;
        visit(Stretch{stick(line, p), axis_.stride, part_end - p});
      }
    });
  }
  // The same as the address of each stick.
  template <typename Visit>
  void for_each_stick(const Line& line, std::uint64_t first, std::uint64_t end, Visit visit) const {
    for_each_stretch(line, first, end, [&](Stretch left) {
      for (; left.count > 0; --left.count, left.at += left.stride) visit(reinterpret_cast<const void*>(left.at));
    });
  }
  // The same sticks, loaded: eight in one move where they lie one behind the other.
  template <typename Visit>
  void for_each_loaded(const Line& line, std::uint64_t first, std::uint64_t end, Visit visit) const {
    for_each_stretch(line, first, end, [&](Stretch left) {
      if (left.stride == wire::kStickBytes) {
        for (; left.count >= 8; left.count -= 8, left.at += 8 * wire::kStickBytes) {
          for_each_of(load_sticks8(reinterpret_cast<const void*>(left.at)), visit);
        }
      }
      for (; left.count > 0; --left.count, left.at += left.stride) {
        visit(load_stick(reinterpret_cast<const void*>(left.at)));
      }
    });
  }
  // The last position of the `positions` that begin at `first`, plus one.
  std::uint64_t end_of(std::uint64_t first, unsigned positions) const {
    return std::min<std::uint64_t>(first + positions, extent_);
  }

  // Lines of this core.
  std::uint64_t first() const { return share_.first; }
  std::uint64_t end() const { return share_.end; }
  Line line(std::uint64_t number) const;
  // The lines from `first` on, one after the other: quicker than each by its number.
  class Walk {
   public:
    Walk(const Reduction& lines, std::uint64_t first) : lines_(lines), sticks_(lines.lines_, lines.axes_, first) {}
    Line line() const { return lines_.line_of(sticks_.sticks(), sticks_.index(lines_.stick_dim_)); }
    void next() { sticks_.next(); }

   private:
    const Reduction& lines_;
    Combinations::Walk sticks_;
  };
  void skip(std::uint64_t lines) { share_.first += lines; }  // which are done

  // All positions take part, their sticks lie at one distance, there is one copy of the output, and lanes of one stick
  // go into one stick.
  bool is_even() const {
    return along_stick_ == spreads_ && spans_.count() == 1 && spans_.hold(0, extent_) &&
           (axis_.part == 0 || axis_.part >= extent_) && copies_.count == 1;
  }
  std::uint64_t distance() const { return axis_.stride; }

  // In all copies.
  template <typename V>
  void store(const Line& line, V stick) const {
    for (unsigned i = 0; i < copies_.count; ++i) {
      store_register(reinterpret_cast<void*>(line.to + copies_.offset[i]), stick);
    }
  }
  // What was computed for all lanes of a line across sticks: lanes of padding become 0; without a stick dimension, lane
  // 0 goes into all lanes.
  template <typename T>
  void finish(const Line& line, T* lanes) const {
    if (spreads_) {
      std::fill_n(lanes + 1, lanes_ - 1, lanes[0]);
    } else {
      std::fill(lanes + line.lanes, lanes + lanes_, T{0});
    }
    store(line, load_stick(lanes));
  }
  bool needs_finish(const Line& line) const { return line.lanes < lanes_; }

 private:
  // `lane`: the index of lane 0 of the output's stick.
  Line line_of(const Combinations::Addresses& sticks, std::uint32_t lane) const {
    Line line{.from = sticks.of[0], .to = sticks.of[axes_.output()], .lanes = spreads_ ? 1 : lanes_};
    if (!spreads_) line.lanes = std::min(axes_.extent(stick_dim_) - lane, lanes_);
    return line;
  }

  unsigned reduced_;
  Axes axes_;
  const Axis& axis_;
  std::uint32_t extent_;
  bool along_stick_;
  bool spreads_;
  Refusal refusal_;
  Spans spans_;
  Copies copies_;
  Combinations lines_;
  unsigned stick_dim_;  // of the output
  std::uint32_t lanes_;
  CoreShare share_;
};

}  // namespace kernel::engine
