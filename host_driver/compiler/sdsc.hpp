// SPDX-License-Identifier: Apache-2.0
// One sdsc_N.json: an operation on tensors, with the layout and place of each tensor and the division of the work among
// cores. Typed: what the JSON says in several places stands here once, and the reader has compared them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/compiler/op_func.hpp"
#include "host_driver/compiler/source_place.hpp"
#include "shared/device_program.hpp"

namespace svp::compiler {

inline constexpr unsigned kMostDimensions = 16;
inline constexpr unsigned kMostTensors = 8;
inline constexpr unsigned kMostCores = 32;
inline constexpr std::size_t kMostSdscBytes = 1u << 20;

// Of the iteration space (N_).
struct Dimension {
  std::string name;            // "mb", "out": handed out by position, without a meaning
  std::uint32_t extent = 1;    // elements; stick dimensions of most operations are padded to whole sticks
  std::uint32_t slices = 1;    // parts of the work; extent = slices × per_core
  std::uint32_t per_core = 1;  // elements
};

// Of a dimension in a tensor.
enum class Scale : std::int8_t {
  None = 0,  // the tensor has no such dimension
  Present = 1,
  Absent = -1,       // reduced or broadcast
  AbsentStick = -2,  // the same of its stick dimension: one element in each stick, in lane 0
};

enum class Memory : std::uint8_t { Hbm, Lx };
enum class Indirection : std::uint8_t { None, Index, Value };

// A dimension of the iteration space that counts windows. Window i and its tap k are element i · stride + k · dilation
// of a tensor that is read through them.
struct Window {
  std::uint8_t dimension = 0;
  std::uint8_t taps = 0;       // the dimension that counts those
  std::uint32_t elements = 0;  // of the tensor; all taps of all windows are among them
  std::uint32_t stride = 1;
  std::uint32_t dilation = 1;

  // Elements from the first tap of the first window to the last one of the last.
  std::uint64_t span(std::uint32_t windows, std::uint32_t of_taps) const {
    return std::uint64_t{windows - 1} * stride + std::uint64_t{of_taps - 1} * dilation + 1;
  }
};

struct Stick {
  std::uint8_t dimension = 0;
  std::uint32_t size = 0;  // elements
};

// Numbers of dimensions are indices of Sdsc::dimensions.
struct SdscTensor {
  std::string name;  // "Tensor0"
  std::string path;  // of its entry in scheduleTree_
  wire::program::Format format = wire::program::Format::Dl16;
  Memory memory = Memory::Hbm;
  std::vector<std::uint8_t> order;  // dimensions, innermost first; the stick dimension stands for its stick index
  std::array<Scale, kMostDimensions> scale{};
  std::vector<Stick> sticks;                         // outermost first; two only for weights of FP8
  std::array<std::uint32_t, kMostDimensions> gap{};  // elements of the allocation beyond N_
  std::vector<std::int64_t> start;                   // of each core: Hbm: a symbol id; Lx: a byte of its scratchpad
  Indirection indirection = Indirection::None;
  std::vector<std::uint8_t> windowed;  // dimensions along which it is read through windows
  // Parts of each dimension among the cores, and which part each core has; of a shuffle they differ from the work's.
  std::array<std::uint32_t, kMostDimensions> parts{};
  std::vector<std::array<std::uint32_t, kMostDimensions>> owned;  // empty: as the work

  bool has(unsigned dimension) const { return scale[dimension] == Scale::Present; }
  // Null: not one of its stick dimensions.
  const Stick* stick_of(unsigned dimension) const {
    for (const Stick& stick : sticks) {
      if (stick.dimension == dimension) return &stick;
    }
    return nullptr;
  }
};

struct MaskRange {
  std::uint8_t dimension = 0;
  std::uint32_t start = 0;
  std::uint32_t count = 0;
};

struct Sdsc {
  std::string file;
  std::string name;  // "0_add"
  std::string body_path;
  OpFunc op = OpFunc::Identity;
  std::vector<Dimension> dimensions;
  std::vector<SdscTensor> tensors;    // arguments in the operation's order, the output last
  std::vector<std::uint8_t> inputs;   // numbers of tensors, without the output and without indices
  std::vector<std::uint8_t> indices;  // the index tensors of a gather or scatter
  std::uint8_t output = 0;
  std::map<std::string, float, std::less<>> constants;
  std::vector<MaskRange> masks;
  std::vector<Window> windows;
  std::uint32_t cores = 1;
  std::vector<std::array<std::uint32_t, kMostDimensions>> slice;  // of each core, by dimension

  // Null: it counts no windows.
  const Window* window_of(unsigned dimension) const {
    for (const Window& window : windows) {
      if (window.dimension == dimension) return &window;
    }
    return nullptr;
  }
  SourcePlace place() const { return {.file = file, .line = 0, .path = body_path}; }
  SourcePlace place(const SdscTensor& tensor) const { return {.file = file, .line = 0, .path = tensor.path}; }
};

// Throws InvalidPlan (file and path of the member) for what is missing, unknown, of another type or contradictory, and
// for sizes that only the launch knows.
Sdsc parse_sdsc(std::string_view text, const std::string& file);

}  // namespace svp::compiler
