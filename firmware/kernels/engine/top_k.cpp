// SPDX-License-Identifier: Apache-2.0
// TopKValue and TopKIndex: the largest elements along the reduced dimension, in descending order along the dimension
// that only the output has. NaN is the largest, -0 and +0 are equal, equal ones are in ascending order of their
// indices. Indices are numbers of the input's format, or of elements of FP32 also INT32.
#include <algorithm>
#include <functional>

#include "firmware/kernels/engine/axes.hpp"
#include "firmware/kernels/engine/elements.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/number.hpp"
#include "firmware/kernels/engine/splat.hpp"
#include "firmware/kernels/engine/top_k_array.hpp"
#include "shared/array_merit.hpp"

namespace kernel::engine {
namespace {

using program::Format;

using wire::array::index_of_merit;
using wire::array::merit;
using wire::array::order_of;
using wire::array::order_of_merit;

// So many ranks are found in one pass; with more, each rank takes a pass of its own.
constexpr std::uint32_t kKept = sizeof(TopKMemory::merit) / sizeof(std::uint64_t);

class Search {
 public:
  // For the first `count` ranks.
  Search(const Work& work, const Axes& axes, unsigned searched, std::uint32_t count)
      : axis_(axes.of(0, searched)),
        extent_(axes.extent(searched)),
        count_(count),
        format_(work.operation.operand[0].format) {}

  // `list` has the merits of the first `known` elements.
  void begin(std::uint64_t from, std::uint64_t* list, std::uint32_t known) {
    from_ = from;
    best_ = list;
    given_ = 0;
    last_ = ~std::uint64_t{0};
    if (count_ > kKept || known == extent_) return;
    if (format_ == Format::Dl16) {
      keep_best<std::uint16_t>(known);
    } else {
      keep_best<std::uint32_t>(known);
    }
  }
  // Index of the next one; at most `count` times.
  std::uint32_t next() { return index_of_merit(count_ <= kKept ? best_[given_++] : next_below()); }

 private:
  // Index and code of each element, from the first one of a stick on.
  template <typename Code, typename Visit>
  void for_each(std::uint32_t begin, Visit visit) const {
    const std::uint32_t lanes = 1u << axis_.lane_bits;
    for (std::uint64_t first = begin; first < extent_; first += lanes) {
      const auto* codes = reinterpret_cast<const Code*>(from_ + axis_.stick(static_cast<std::uint32_t>(first)));
      const auto end = static_cast<std::uint32_t>(std::min<std::uint64_t>(first + lanes, extent_));
      for (auto i = static_cast<std::uint32_t>(first); i < end; ++i) visit(i, *codes++);
    }
  }

  // A heap with the worst of the best at its top. An element with the order of that one comes later, so it is worse.
  template <typename Code>
  void keep_best(std::uint32_t known) {
    const std::greater<> better;
    std::uint32_t kept = std::min(known, count_);
    std::make_heap(best_, best_ + kept, better);
    std::uint32_t worst = kept != 0 ? order_of_merit(best_[0]) : 0;
    for_each<Code>(known, [&](std::uint32_t i, Code code) {
      const std::uint32_t order = order_of(code);
      if (kept == count_ && order <= worst) return;
      if (kept == count_) std::pop_heap(best_, best_ + kept--, better);
      best_[kept++] = merit(order, i);
      std::push_heap(best_, best_ + kept, better);
      worst = order_of_merit(best_[0]);
    });
    std::sort_heap(best_, best_ + count_, better);
  }

  [[gnu::noinline]] std::uint64_t next_below() {
    std::uint64_t best = 0;
    const auto look_at = [&](std::uint32_t i, auto code) {
      const std::uint64_t candidate = merit(order_of(code), i);
      if (candidate < last_) best = std::max(best, candidate);
    };
    if (format_ == Format::Dl16) {
      for_each<std::uint16_t>(0, look_at);
    } else {
      for_each<std::uint32_t>(0, look_at);
    }
    return last_ = best;
  }

  const Axis& axis_;
  std::uint32_t extent_;
  std::uint32_t count_;
  Format format_;
  std::uint64_t* best_ = nullptr;  // in descending order, when they are kept
  std::uint64_t from_ = 0;
  std::uint32_t given_ = 0;
  std::uint64_t last_ = 0;
};

class TopK {
 public:
  explicit TopK(const Work& work)
      : axes_(work),
        copies_(work, axes_),
        output_(work.output()),
        item_(program::item_bytes(output_.format)),
        searched_(static_cast<unsigned>(std::countr_zero(work.operation.reduced))),
        ranks_(static_cast<std::uint8_t>(output_.present & ~work.operation.operand[0].present)),
        rank_dim_(static_cast<unsigned>(std::countr_zero(ranks_ | 1u << program::kMaxRank))),
        count_(ranks_ != 0 ? axes_.extent(rank_dim_) : 1),
        values_(work.operation.opcode == Opcode::TopKValue),
        groups_(output_sticks(work, axes_, ranks_)),
        share_(work, groups_.total()),
        search_(work, axes_, searched_, count_),
        memory_(reinterpret_cast<TopKMemory&>(work.working)),
        array_(work, searched_rows(work)) {
    const Operand& input = work.operation.operand[0];
    const bool input_free = input.stick_dim == program::kNoDimension || input.stick_dim == searched_;
    const bool output_free = output_.stick_dim == program::kNoDimension || output_.stick_dim == rank_dim_;
    const bool lanes_match = input.stick_dim == output_.stick_dim || (input_free && output_free);
    const bool known = input.format == Format::Dl16 || input.format == Format::Fp32;
    const bool counts = !values_ && input.format == Format::Fp32 && output_.format == Format::Int32;
    if (!lanes_match || !known || (input.format != output_.format && !counts) || std::popcount(ranks_) > 1 ||
        work.operation.mask_count != 0 || count_ > axes_.extent(searched_)) {
      refusal_ = work.refuse(Where::Unsupported);
    }
  }

  Refusal run() {
    if (!refusal_.ok()) return refusal_;
    if (share_.first == share_.end) return {};
    Combinations::Walk walk(groups_, axes_, share_.first);
    for (std::uint64_t left = share_.end - share_.first; left > 0;) {
      const std::uint32_t lines = lines_of(walk);
      const std::uint32_t by_array = has_lines_in_lanes() ? 1 : array_.most_rows(left, 1);
      const std::uint32_t rows = std::max(by_array, 1u);
      for (std::uint32_t i = 0; i < rows; ++i, walk.next()) {
        memory_.row[i] = walk.sticks().of[0];
        memory_.to[i] = walk.sticks().of[1];
      }
      run_rows(rows, lines);
      left -= rows;
    }
    return {};
  }

 private:
  bool has_lines_in_lanes() const {
    return output_.stick_dim != program::kNoDimension && output_.stick_dim != rank_dim_;
  }
  std::uint32_t lines_of(const Combinations::Walk& walk) const {
    if (!has_lines_in_lanes()) return 1;
    return std::min(axes_.extent(output_.stick_dim) - walk.index(output_.stick_dim), program::lanes_of(output_.format));
  }
  TopKRows searched_rows(const Work& work) const {
    const Operand& input = work.operation.operand[0];
    const Axis& axis = axes_.of(0, searched_);
    return {.format = input.format,
            .ranks = count_,
            .extent = axes_.extent(searched_),
            .in_stick = 1u << axis.lane_bits,
            .step = axis.stride,
            .even = axis.part == 0};
  }

  // Of the first rows by the array; of a row that it has begun, and of the others, by the engine.
  void run_rows(std::uint32_t rows, std::uint32_t lines) {
    for (std::uint32_t first = 0; first < rows;) {
      const std::uint64_t sticks = array_.most_rows(rows - first, lines) != 0 ? array_.include(first, rows, lines) : 0;
      std::uint64_t* list = memory_.merit;
      const auto whole = static_cast<std::uint32_t>(sticks / array_.sticks_of_row());
      for (const std::uint32_t end = first + whole; first < end; ++first, list += lines * count_) {
        run_row(first, lines, list, axes_.extent(searched_));
      }
      if (whole == 0) run_row(first++, lines, list, array_.elements(sticks));
    }
  }
  void run_row(std::uint32_t row, std::uint32_t lines, std::uint64_t* list, std::uint32_t known) {
    if (has_lines_in_lanes()) {
      run_lanes(row, lines, list, known);
    } else {
      run_one(row, list, known);
    }
  }

  // Of an element of the line at `from`.
  std::uint32_t result(std::uint64_t from, std::uint32_t index) const {
    if (!values_) return output_.format == Format::Int32 ? index : number::code_of(output_.format, index);
    const std::uint64_t at = from + axes_.of(0, searched_).element(index);
    return item_ == sizeof(std::uint16_t) ? *reinterpret_cast<const std::uint16_t*>(at)
                                          : *reinterpret_cast<const std::uint32_t*>(at);
  }

  // Ranks are in the lanes of a stick, or one in each stick.
  void run_one(std::uint32_t row, std::uint64_t* list, std::uint32_t known) {
    const std::uint64_t from = memory_.row[row];
    const std::uint64_t to = memory_.to[row];
    search_.begin(from, list, known);
    const Axis& axis = axes_.of(1, rank_dim_);
    const auto next_result = [&](std::uint32_t) { return result(from, search_.next()); };
    if (output_.stick_dim == program::kNoDimension) {
      for (std::uint32_t rank = 0; rank < count_; ++rank) put_stick(to + axis.stick(rank), next_result(0));
      return;
    }
    const std::uint32_t lanes = program::lanes_of(output_.format);
    for (std::uint32_t rank = 0; rank < count_; rank += lanes) {
      put_results(to + axis.stick(rank), std::min(count_ - rank, lanes), next_result);
    }
  }

  // Each lane of a stick is a search of its own. The array has made the lists of all lanes, the engine makes one after
  // the other.
  void run_lanes(std::uint32_t row, std::uint32_t used, std::uint64_t* list, std::uint32_t known) {
    const std::uint64_t from = memory_.row[row];
    const std::uint64_t to = memory_.to[row];
    const auto stick_of = [&](std::uint32_t rank) { return ranks_ != 0 ? axes_.of(1, rank_dim_).stick(rank) : 0; };
    if (known == axes_.extent(searched_)) {
      for (std::uint32_t rank = 0; rank < count_; ++rank) {
        put_results(to + stick_of(rank), used, [&](std::uint32_t lane) {
          return result(from + lane * item_, index_of_merit(list[lane * count_ + rank]));
        });
      }
      return;
    }
    for (std::uint32_t lane = 0; lane < used; ++lane) {
      search_.begin(from + lane * item_, list, known);
      for (std::uint32_t rank = 0; rank < count_; ++rank) {
        put(to + stick_of(rank) + lane * item_, result(from + lane * item_, search_.next()));
      }
      if (known != 0) list += count_;
    }
    for (std::uint32_t rank = 0; rank < count_; ++rank) {
      for (std::uint32_t lane = used; lane < program::lanes_of(output_.format); ++lane) {
        put(to + stick_of(rank) + lane * item_, 0);
      }
    }
  }

  // In all lanes.
  void put_stick(std::uint64_t to, std::uint32_t code) const {
    for (unsigned i = 0; i < copies_.count; ++i) {
      splat(&code, reinterpret_cast<void*>(to + copies_.offset[i]), item_);
    }
  }
  // Into one lane.
  void put(std::uint64_t to, std::uint32_t code) const {
    for (unsigned i = 0; i < copies_.count; ++i) store_element(to + copies_.offset[i], item_, code);
  }
  // Of the first lanes of a stick; the others become 0.
  template <typename Result>
  void put_results(std::uint64_t to, std::uint32_t lanes, Result result_of) const {
    alignas(wire::kStickBytes) std::uint32_t stick[wire::kStickBytes / sizeof(std::uint32_t)]{};
    auto* const halves = reinterpret_cast<std::uint16_t*>(stick);
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      const std::uint32_t code = result_of(lane);
      if (item_ == sizeof(std::uint16_t)) {
        halves[lane] = static_cast<std::uint16_t>(code);
      } else {
        stick[lane] = code;
      }
    }
    for (unsigned i = 0; i < copies_.count; ++i) {
      store_register(reinterpret_cast<void*>(to + copies_.offset[i]), load_stick(stick));
    }
  }

  Axes axes_;
  Copies copies_;
  const Operand& output_;
  unsigned item_;
  unsigned searched_;
  std::uint8_t ranks_;  // bits
  unsigned rank_dim_;
  std::uint32_t count_;
  bool values_;
  Combinations groups_;
  CoreShare share_;
  Search search_;
  TopKMemory& memory_;
  TopKArray array_;
  Refusal refusal_;
};

}  // namespace

Refusal top_k(const Work& work) { return TopK(work).run(); }

}  // namespace kernel::engine
