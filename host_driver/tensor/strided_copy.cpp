// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/strided_copy.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/tensor/stick_kernels.hpp"

namespace svp {
namespace {

using Dims = std::vector<std::int64_t>;

struct Range {
  __int128 first;
  __int128 last;
};

// Beyond every memory; a product of two 64-bit numbers added to it does not wrap.
constexpr __int128 kFar = static_cast<__int128>(1) << 100;

// Of one side of a nest that moves something. Strides may be negative: what counts is where the elements lie.
Range range_of(const Dims& size, const Dims& stride, std::int64_t offset) {
  Range range{offset, offset};
  for (std::size_t d = 0; d < size.size() && range.first > -kFar && range.last < kFar; ++d) {
    const __int128 reach = static_cast<__int128>(size[d] - 1) * stride[d];
    (reach < 0 ? range.first : range.last) += reach;
  }
  return range;
}

void require_in_memory(const char* side, const Range& range, ElementFormat format, std::size_t bytes) {
  const __int128 bits = static_cast<__int128>(bytes) * 8;
  if (range.first >= 0 && range.last < kFar && (range.last + 1) * bits_of(format) <= bits) return;
  throw InvalidArgument(side, "the loops leave the " + std::to_string(bytes) + " bytes of " + side,
                        "give loops that were made for this memory");
}

bool moves(const StridedLoops& nest) { return std::ranges::find(nest.size, 0) == nest.size.end(); }

void require_loops(const StridedLoops& nest) {
  const std::size_t depth = nest.size.size();
  if (nest.src_stride.size() != depth || nest.dst_stride.size() != depth) {
    throw InvalidArgument("loops", "sizes and strides of a nest differ in length",
                          "give every loop a size and two strides");
  }
  if (std::ranges::any_of(nest.size, [](std::int64_t size) { return size < 0; })) {
    throw InvalidArgument("loops", "a loop has a negative size", "check the sizes");
  }
}

struct CopyLoop {
  std::int64_t count;
  std::int64_t src;
  std::int64_t dst;
};

// Without the loops of one step. The one with the smallest steps comes first: it becomes the run.
std::vector<CopyLoop> ordered(const StridedLoops& nest) {
  std::vector<CopyLoop> loops;
  for (std::size_t d = 0; d < nest.size.size(); ++d) {
    if (nest.size[d] != 1) loops.push_back({nest.size[d], nest.src_stride[d], nest.dst_stride[d]});
  }
  const auto width = [](const CopyLoop& loop) {
    return std::max(loop.src < 0 ? -loop.src : loop.src, loop.dst < 0 ? -loop.dst : loop.dst);
  };
  const auto least = std::ranges::min_element(loops, {}, width);
  if (least != loops.end()) std::rotate(loops.begin(), least, least + 1);
  if (loops.empty()) loops.push_back({1, 1, 1});
  return loops;
}

// The fast kernel for dense runs of this pair, if there is one, and its direction.
struct FastPair {
  kernels::Conversion conversion;
  bool to_device;
};
std::optional<FastPair> fast_pair(ElementFormat from, ElementFormat to) {
  using enum ElementFormat;
  if (from == Fp16 && to == Dl16) return FastPair{kernels::Conversion::Fp16Dl16, true};
  if (from == Dl16 && to == Fp16) return FastPair{kernels::Conversion::Fp16Dl16, false};
  if (from == Bf16 && to == Dl16) return FastPair{kernels::Conversion::Bf16Dl16, true};
  if (from == Dl16 && to == Bf16) return FastPair{kernels::Conversion::Bf16Dl16, false};
  if (from == Fp32 && to == Dl16) return FastPair{kernels::Conversion::Fp32Dl16, true};
  if (from == Dl16 && to == Fp32) return FastPair{kernels::Conversion::Fp32Dl16, false};
  return std::nullopt;
}

class Executor {
 public:
  Executor(ElementFormat from, const std::byte* src, ElementFormat to, std::byte* dst)
      : run_(conversion(from, to)),
        fast_(fast_pair(from, to)),
        src_(src),
        src_bytes_(bits_of(from) / 8),
        dst_(dst),
        dst_bytes_(bits_of(to) / 8) {}

  void execute(const StridedLoops& nest) const {
    const std::vector<CopyLoop> loops = ordered(nest);
    std::int64_t from = nest.src_offset;
    std::int64_t to = nest.dst_offset;
    Dims index(loops.size(), 0);
    for (bool more = true; more;) {
      run(loops.front(), from, to);
      more = false;
      for (std::size_t d = 1; d < loops.size() && !more; ++d) {
        more = ++index[d] < loops[d].count;
        const std::int64_t steps = more ? 1 : 1 - loops[d].count;
        if (!more) index[d] = 0;
        from += steps * loops[d].src;
        to += steps * loops[d].dst;
      }
    }
  }

 private:
  void run(const CopyLoop& loop, std::int64_t from, std::int64_t to) const {
    const bool dense = loop.src == 1 && loop.dst == 1;
    const std::byte* const src = src_ + from * src_bytes_;
    std::byte* const dst = dst_ + to * dst_bytes_;
    const auto aligned = [](const void* at, std::int64_t bytes) {
      return reinterpret_cast<std::uintptr_t>(at) % static_cast<std::uintptr_t>(bytes) == 0;
    };
    if (fast_ && dense && aligned(src, src_bytes_) && aligned(dst, dst_bytes_)) {
      kernels::convert(fast_->conversion, fast_->to_device, src, dst, static_cast<std::size_t>(loop.count));
    } else {
      run_({src_, from, loop.src, dst_, to, loop.dst, loop.count});
    }
  }

  ConvertRun run_;
  std::optional<FastPair> fast_;
  const std::byte* src_;
  std::int64_t src_bytes_;  // of an element; 0 when it is less than a byte
  std::byte* dst_;
  std::int64_t dst_bytes_;
};

}  // namespace

void copy_strided(std::span<const StridedLoops> nests, ElementFormat from, std::span<const std::byte> src,
                  ElementFormat to, std::span<std::byte> dst) {
  if (conversion(from, to) == nullptr) {
    throw InvalidArgument("format",
                          "there is no conversion from " + std::string(name(from)) + " to " + std::string(name(to)),
                          "convert the tensor on the host to a type of the card first");
  }
  for (const StridedLoops& nest : nests) {
    require_loops(nest);
    if (!moves(nest)) continue;
    require_in_memory("src", range_of(nest.size, nest.src_stride, nest.src_offset), from, src.size());
    require_in_memory("dst", range_of(nest.size, nest.dst_stride, nest.dst_offset), to, dst.size());
  }
  const Executor executor(from, src.data(), to, dst.data());
  for (const StridedLoops& nest : nests) {
    if (moves(nest)) executor.execute(nest);
  }
}

}  // namespace svp
