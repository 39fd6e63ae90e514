// SPDX-License-Identifier: Apache-2.0
// TopKValue and TopKIndex: the largest elements along the reduced dimension, in descending order along the dimension
// that only the output has. NaN is the largest, -0 and +0 are equal, equal ones are in ascending order of their
// indices.
#include <algorithm>

#include "firmware/kernels/engine/axes.hpp"
#include "firmware/kernels/engine/elements.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/number.hpp"

namespace kernel::engine {
namespace {

using program::Format;

// Larger is better. The order of the numbers in the upper half, that of the indices in the lower one.
std::uint64_t merit(Format format, std::uint32_t code, std::uint32_t index) {
  const std::uint32_t bits = format == Format::Dl16 ? code << 16 : code;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  const std::uint32_t largest_number = format == Format::Dl16 ? std::uint32_t{wire::kDl16Max} << 16 : 0x7F800000;
  std::uint32_t order = 0x80000000u + magnitude;
  if ((bits >> 31) != 0) order = 0x80000000u - magnitude;
  if (magnitude > largest_number) order = 0xFFFFFFFFu;
  return std::uint64_t{order} << 32 | ~index;
}
std::uint32_t index_of(std::uint64_t merit) { return ~static_cast<std::uint32_t>(merit); }

// Of as many elements as there is memory for; more are looked through once for each rank.
constexpr std::uint32_t kSorted = kWorkingBytes / sizeof(std::uint64_t);

class Search {
 public:
  Search(const Work& work, const Axes& axes, unsigned searched)
      : axis_(axes.of(0, searched)),
        extent_(axes.extent(searched)),
        format_(work.operation.operand[0].format),
        merits_(reinterpret_cast<std::uint64_t*>(work.working.bytes)) {}

  void begin(std::uint64_t from) {
    from_ = from;
    left_ = 0;
    last_ = ~std::uint64_t{0};
    if (extent_ > kSorted) return;
    for (std::uint32_t i = 0; i < extent_; ++i) merits_[i] = merit(format_, code(i), i);
    left_ = extent_;
    std::make_heap(merits_, merits_ + left_);
  }
  // Index of the next one; at most `extent` times.
  std::uint32_t next() { return index_of(extent_ > kSorted ? next_below() : next_of_heap()); }
  std::uint32_t code(std::uint32_t index) const {
    return load_element(from_ + axis_.element(index), program::item_bytes(format_));
  }

 private:
  std::uint64_t next_of_heap() {
    std::pop_heap(merits_, merits_ + left_);
    return merits_[--left_];
  }
  std::uint64_t next_below() {
    std::uint64_t best = 0;
    for (std::uint32_t i = 0; i < extent_; ++i) {
      const std::uint64_t candidate = merit(format_, code(i), i);
      if (candidate < last_) best = std::max(best, candidate);
    }
    return last_ = best;
  }

  const Axis& axis_;
  std::uint32_t extent_;
  Format format_;
  std::uint64_t* merits_;
  std::uint64_t from_ = 0;
  std::uint32_t left_ = 0;
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
        search_(work, axes_, searched_) {
    const Operand& input = work.operation.operand[0];
    const bool input_free = input.stick_dim == program::kNoDimension || input.stick_dim == searched_;
    const bool output_free = output_.stick_dim == program::kNoDimension || output_.stick_dim == rank_dim_;
    const bool lanes_match = input.stick_dim == output_.stick_dim || (input_free && output_free);
    const bool known = output_.format == Format::Dl16 || output_.format == Format::Fp32;
    if (!lanes_match || !known || input.format != output_.format || std::popcount(ranks_) > 1 ||
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
      for (std::uint32_t rank = 0; rank < count_; ++rank) put(to + axis.stick(rank), lanes, next_result());
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
