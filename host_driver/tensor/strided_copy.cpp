// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/strided_copy.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/tensor/conversion_refusal.hpp"
#include "host_driver/tensor/stick_kernels.hpp"
#include "shared/units.hpp"

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

// The fast kernel for dense runs of this pair, if there is one, and which side it calls the device.
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
  if (from == Int64 && to == Int32) return FastPair{kernels::Conversion::Int64Int32, true};
  if (from == Int32 && to == Int64) return FastPair{kernels::Conversion::Int64Int32, false};
  if (from == Uint8 && to == Uint32) return FastPair{kernels::Conversion::Uint8Uint32, true};
  if (from == Uint32 && to == Uint8) return FastPair{kernels::Conversion::Uint8Uint32, false};
  if (from == Bool && to == Dl16) return FastPair{kernels::Conversion::BoolDl16, true};
  if (from == Dl16 && to == Bool) return FastPair{kernels::Conversion::BoolDl16, false};
  if (from != to) return std::nullopt;
  switch (bits_of(from)) {
    case 8: return FastPair{kernels::Conversion::Copy1, true};
    case 16: return FastPair{kernels::Conversion::Copy2, true};
    case 32: return FastPair{kernels::Conversion::Copy4, true};
    default: return std::nullopt;
  }
}

// A nest as the kernels walk whole sticks: `rows` sticks that follow each other on the device, in `columns` that are a
// step apart.
struct StickLoops {
  bool to_device;
  CopyLoop rows;
  CopyLoop columns;
};

std::int64_t device_step(const CopyLoop& loop, bool to_device) { return to_device ? loop.dst : loop.src; }
std::int64_t host_step(const CopyLoop& loop, bool to_device) { return to_device ? loop.src : loop.dst; }

// Takes rows and columns out of the loops, which ordered() has made: one step of each is left there. Nothing, and no
// change: the runs are no whole sticks, or none follow each other.
std::optional<StickLoops> take_sticks(std::vector<CopyLoop>& loops, std::int64_t elements, bool to_device) {
  constexpr CopyLoop kOneStep{1, 0, 0};
  if (loops[0].count != elements || loops[0].src != 1 || loops[0].dst != 1) return std::nullopt;
  const auto rows = std::find_if(loops.begin() + 1, loops.end(), [&](const CopyLoop& loop) {
    return device_step(loop, to_device) == elements && host_step(loop, to_device) >= 0;
  });
  if (rows == loops.end()) return std::nullopt;
  StickLoops sticks{to_device, std::exchange(*rows, kOneStep), kOneStep};
  auto columns = loops.end();
  for (auto loop = loops.begin() + 1; loop != loops.end(); ++loop) {
    if (loop->count == 1) continue;
    if (columns == loops.end() || host_step(*loop, to_device) < host_step(*columns, to_device)) columns = loop;
  }
  if (columns != loops.end()) sticks.columns = std::exchange(*columns, kOneStep);
  return sticks;
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
    std::vector<CopyLoop> loops = ordered(nest);
    const std::optional<StickLoops> sticks = sticks_of(loops);
    std::int64_t from = nest.src_offset;
    std::int64_t to = nest.dst_offset;
    Dims index(loops.size(), 0);
    for (bool more = true; more;) {
      if (sticks) {
        run_sticks(*sticks, from, to);
      } else {
        run(loops.front(), from, to);
      }
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
  bool aligned() const {
    const auto is = [](const void* at, std::int64_t bytes) {
      return reinterpret_cast<std::uintptr_t>(at) % static_cast<std::uintptr_t>(bytes) == 0;
    };
    return src_bytes_ != 0 && dst_bytes_ != 0 && is(src_, src_bytes_) && is(dst_, dst_bytes_);
  }

  // How many elements of a side are a stick; 0 when they are less than bytes.
  static std::int64_t per_stick(std::int64_t bytes) {
    return bytes == 0 ? 0 : static_cast<std::int64_t>(wire::kStickBytes) / bytes;
  }

  std::optional<StickLoops> sticks_of(std::vector<CopyLoop>& loops) const {
    if (src_bytes_ == 0 || dst_bytes_ == 0) return std::nullopt;
    const bool side_known = fast_ && !is_copy();
    for (const bool to_device : {true, false}) {
      if (side_known && to_device != fast_->to_device) continue;
      if (auto sticks = take_sticks(loops, per_stick(to_device ? dst_bytes_ : src_bytes_), to_device)) return sticks;
    }
    return std::nullopt;
  }
  bool is_copy() const {
    using enum kernels::Conversion;
    return fast_->conversion == Copy1 || fast_->conversion == Copy2 || fast_->conversion == Copy4;
  }

  void run_sticks(const StickLoops& sticks, std::int64_t from, std::int64_t to) const {
    constexpr std::int64_t kColumns = kernels::StickColumns::kMaxColumns;
    const CopyLoop& columns = sticks.columns;
    for (std::int64_t first = 0; first < columns.count; first += kColumns) {
      StickLoops some = sticks;
      some.columns.count = std::min(kColumns, columns.count - first);
      const std::int64_t src = from + first * columns.src;
      const std::int64_t dst = to + first * columns.dst;
      (fast_ && aligned()) ? run_kernel(some, src, dst) : run_rows(some, src, dst);
    }
  }

  void run_kernel(const StickLoops& sticks, std::int64_t from, std::int64_t to) const {
    const auto& [to_device, rows, columns] = sticks;
    // The kernels read one side only, whichever it is.
    std::byte* const src = const_cast<std::byte*>(src_) + from * src_bytes_;
    std::byte* const dst = dst_ + to * dst_bytes_;
    const std::int64_t host_row = host_step(rows, to_device) * (to_device ? src_bytes_ : dst_bytes_);
    kernels::StickColumns batch;
    batch.count = static_cast<std::size_t>(columns.count);
    batch.rows = static_cast<std::size_t>(rows.count);
    batch.host_row_bytes = static_cast<std::size_t>(host_row);
    const auto lanes = static_cast<std::uint32_t>(per_stick(to_device ? dst_bytes_ : src_bytes_));
    for (std::int64_t c = 0; c < columns.count; ++c) {
      std::byte* const read = src + c * columns.src * src_bytes_;
      std::byte* const written = dst + c * columns.dst * dst_bytes_;
      const auto i = static_cast<std::size_t>(c);
      batch.host[i] = to_device ? read : written;
      batch.device[i] = to_device ? written : read;
      batch.lanes[i] = lanes;
    }
    to_device ? kernels::to_sticks(fast_->conversion, batch) : kernels::from_sticks(fast_->conversion, batch);
  }

  // The same by the general converter: the host's side in the order of its addresses, as the kernels do it.
  void run_rows(const StickLoops& sticks, std::int64_t from, std::int64_t to) const {
    const auto& [to_device, rows, columns] = sticks;
    const std::int64_t lanes = per_stick(to_device ? dst_bytes_ : src_bytes_);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      for (std::int64_t c = 0; c < columns.count; ++c) {
        run_({src_, from + r * rows.src + c * columns.src, 1, dst_, to + r * rows.dst + c * columns.dst, 1, lanes});
      }
    }
  }

  void run(const CopyLoop& loop, std::int64_t from, std::int64_t to) const {
    const bool dense = loop.src == 1 && loop.dst == 1;
    if (fast_ && dense && aligned()) {
      kernels::convert(fast_->conversion, fast_->to_device, src_ + from * src_bytes_, dst_ + to * dst_bytes_,
                       static_cast<std::size_t>(loop.count));
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
  if (conversion(from, to) == nullptr) refuse_conversion("format", name(from), name(to));
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
