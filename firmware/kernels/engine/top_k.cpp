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

namespace kernel::engine {
namespace {

using program::Format;

// Codes as integers in the order of the numbers.
std::uint32_t order_of(std::uint16_t code) {
  const std::uint32_t magnitude = code & 0x7FFFu;
  if (wire::dl16_is_nan(code)) return ~std::uint32_t{0};
  return (code >> 15) != 0 ? 0x8000u - magnitude : 0x8000u + magnitude;
}
std::uint32_t order_of(std::uint32_t code) {
  const std::uint32_t magnitude = code & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return ~std::uint32_t{0};
  return (code >> 31) != 0 ? 0x80000000u - magnitude : 0x80000000u + magnitude;
}

// Larger is better: the order of the numbers in the upper half, that of the indices in the lower one.
std::uint64_t merit(std::uint32_t order, std::uint32_t index) { return std::uint64_t{order} << 32 | ~index; }
std::uint32_t index_of(std::uint64_t merit) { return ~static_cast<std::uint32_t>(merit); }

// So many ranks are found in one pass; with more, each rank takes a pass of its own.
constexpr std::uint32_t kKept = kWorkingBytes / sizeof(std::uint64_t);

class Search {
 public:
  // For the first `count` ranks.
  Search(const Work& work, const Axes& axes, unsigned searched, std::uint32_t count)
      : axis_(axes.of(0, searched)),
        extent_(axes.extent(searched)),
        count_(count),
        format_(work.operation.operand[0].format),
        best_(reinterpret_cast<std::uint64_t*>(work.working.bytes)) {}

  void begin(std::uint64_t from) {
    from_ = from;
    given_ = 0;
    last_ = ~std::uint64_t{0};
    if (count_ > kKept) return;
    if (format_ == Format::Dl16) {
      keep_best<std::uint16_t>();
    } else {
      keep_best<std::uint32_t>();
    }
  }
  // Index of the next one; at most `count` times.
  std::uint32_t next() { return index_of(count_ <= kKept ? best_[given_++] : next_below()); }
  std::uint32_t code(std::uint32_t index) const {
    return load_element(from_ + axis_.element(index), program::item_bytes(format_));
  }

 private:
  // Index and code of each element.
  template <typename Code, typename Visit>
  void for_each(Visit visit) const {
    const std::uint32_t lanes = 1u << axis_.lane_bits;
    for (std::uint64_t first = 0; first < extent_; first += lanes) {
      const auto* codes = reinterpret_cast<const Code*>(from_ + axis_.stick(static_cast<std::uint32_t>(first)));
      const auto end = static_cast<std::uint32_t>(std::min<std::uint64_t>(first + lanes, extent_));
      for (auto i = static_cast<std::uint32_t>(first); i < end; ++i) visit(i, *codes++);
    }
  }

  // A heap with the worst of the best at its top. An element with the order of that one comes later, so it is worse.
  template <typename Code>
  void keep_best() {
    const std::greater<> better;
    std::uint32_t kept = 0;
    std::uint32_t worst = 0;
    for_each<Code>([&](std::uint32_t i, Code code) {
      const std::uint32_t order = order_of(code);
      if (kept == count_ && order <= worst) return;
      if (kept == count_) std::pop_heap(best_, best_ + kept--, better);
      best_[kept++] = merit(order, i);
      std::push_heap(best_, best_ + kept, better);
      worst = static_cast<std::uint32_t>(best_[0] >> 32);
    });
    std::sort_heap(best_, best_ + count_, better);
  }

  std::uint64_t next_below() {
    std::uint64_t best = 0;
    const auto look_at = [&](std::uint32_t i, auto code) {
      const std::uint64_t candidate = merit(order_of(code), i);
      if (candidate < last_) best = std::max(best, candidate);
    };
    if (format_ == Format::Dl16) {
      for_each<std::uint16_t>(look_at);
    } else {
      for_each<std::uint32_t>(look_at);
    }
    return last_ = best;
  }

  const Axis& axis_;
  std::uint32_t extent_;
  std::uint32_t count_;
  Format format_;
  std::uint64_t* best_;  // in descending order, when they are kept
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
        search_(work, axes_, searched_, count_) {
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
    for (std::uint64_t group = share_.first; group < share_.end; ++group) {
      const std::uint64_t from = axes_.base(0) + groups_.stick(axes_, 0, group);
      const std::uint64_t to = axes_.base(1) + groups_.stick(axes_, 1, group);
      if (output_.stick_dim == program::kNoDimension || output_.stick_dim == rank_dim_) {
        run_one(from, to);
      } else {
        run_lanes(from, to, axes_.extent(output_.stick_dim) - groups_.index(output_.stick_dim, group));
      }
    }
    return {};
  }

 private:
  std::uint32_t next_result() {
    const std::uint32_t index = search_.next();
    return values_ ? search_.code(index) : number::code_of(output_.format, index);
  }

  // Ranks are in the lanes of a stick, or one in each stick.
  void run_one(std::uint64_t from, std::uint64_t to) {
    search_.begin(from);
    const Axis& axis = axes_.of(1, rank_dim_);
    const std::uint32_t lanes = program::lanes_of(output_.format);
    if (output_.stick_dim == program::kNoDimension) {
      for (std::uint32_t rank = 0; rank < count_; ++rank) put_stick(to + axis.stick(rank), next_result());
      return;
    }
    for (std::uint32_t rank = 0; rank < count_; ++rank) put(to + axis.element(rank), 1, next_result());
    const std::uint32_t end = count_ % lanes;
    if (end != 0) put(to + axis.element(count_ - 1) + item_, lanes - end, 0);
  }

  // Each lane of a stick is a search of its own.
  void run_lanes(std::uint64_t from, std::uint64_t to, std::uint32_t left) {
    const std::uint32_t lanes = program::lanes_of(output_.format);
    const std::uint32_t used = std::min(left, lanes);
    const auto stick_of = [&](std::uint32_t rank) { return ranks_ != 0 ? axes_.of(1, rank_dim_).stick(rank) : 0; };
    for (std::uint32_t lane = 0; lane < used; ++lane) {
      search_.begin(from + lane * item_);
      for (std::uint32_t rank = 0; rank < count_; ++rank) {
        put(to + stick_of(rank) + lane * item_, 1, next_result());
      }
    }
    for (std::uint32_t rank = 0; rank < count_; ++rank) put(to + stick_of(rank) + used * item_, lanes - used, 0);
  }

  // In all lanes.
  void put_stick(std::uint64_t to, std::uint32_t code) const {
    for (unsigned i = 0; i < copies_.count; ++i) {
      splat(&code, reinterpret_cast<void*>(to + copies_.offset[i]), item_);
    }
  }
  // In `lanes` lanes from there, in all copies.
  void put(std::uint64_t to, std::uint32_t lanes, std::uint32_t code) const {
    for (unsigned i = 0; i < copies_.count; ++i) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        store_element(to + copies_.offset[i] + lane * item_, item_, code);
      }
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
  Refusal refusal_;
};

}  // namespace

Refusal top_k(const Work& work) { return TopK(work).run(); }

}  // namespace kernel::engine
