// SPDX-License-Identifier: Apache-2.0
#include "tests/support/bundle_reference.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "host_driver/program/function_tables.hpp"
#include "shared/dl16.hpp"

namespace test {

namespace {

using namespace svp::compiler;
using wire::program::Format;
using Index = std::array<std::uint32_t, kMostDimensions>;

constexpr std::uint64_t kScratchpadBytes = std::uint64_t{2} << 20;
constexpr std::uint32_t kCores = 32;

struct Place {
  ReferenceMemory* memory;
  std::uint64_t at;
};

// −0 is less than +0.
double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
double smaller(double a, double b) { return -larger(-a, -b); }

// All memory of one run.
struct Machine {
  std::vector<ReferenceMemory> arguments;
  std::vector<std::uint64_t> lengths;  // of the arguments' tensors; empty: not known
  ReferenceMemory pool;
  std::vector<ReferenceMemory>& scratchpads;
  // What exx2 left in a stick, as the pair that it means.
  std::map<std::pair<const ReferenceMemory*, std::uint64_t>, std::pair<double, double>> pairs;
};

// One execution of an SDSC, with the iterations of the loops around it.
class Run {
 public:
  Run(Machine& machine, const Sdsc& sdsc, const Execution& execution, const std::vector<std::uint32_t>& iterations)
      : machine_(machine),
        sdsc_(sdsc),
        execution_(execution),
        iterations_(iterations),
        begins_(sdsc.tensors.size() * kCores) {}

  void run() {
    if (!sdsc_.indices.empty()) return indexed();
    if ((sdsc_.op == OpFunc::Identity || sdsc_.op == OpFunc::Shuffle) && alone(input(0)) && alone(output()) &&
        input(0).format == output().format) {
      return copy_sticks();
    }
    if (is_reduction(sdsc_.op)) return reduce();
    switch (sdsc_.op) {
      case OpFunc::Restickify: return restickify();
      case OpFunc::Shuffle: return shuffle();
      case OpFunc::MatMul: return multiply();
      case OpFunc::Dl16ToFp32: return stagger(output(), input(0));
      case OpFunc::Fp32ToDl16: return stagger(input(0), output());
      case OpFunc::TopKValue:
      case OpFunc::TopKIndex: return top_k();
      case OpFunc::Exx2: return exx2();
      case OpFunc::LayerNormScale: return layer_norm_scale();
      case OpFunc::LayerNormNorm: return layer_norm();
      case OpFunc::AveragePool:
      case OpFunc::Conv2d:
      case OpFunc::DepthwiseConv2d: return sum_windows();
      default: return element_by_element();
    }
  }

 private:
  const SdscTensor& input(std::size_t number) const { return sdsc_.tensors[sdsc_.inputs[number]]; }
  const SdscTensor& output() const { return sdsc_.tensors[sdsc_.output]; }
  std::size_t rank() const { return sdsc_.dimensions.size(); }

  // ---- indices
  // All of the iteration space; dimensions of `fixed` at 0.
  template <typename Visit>
  void each(Visit visit, const std::vector<unsigned>& fixed = {}) const {
    Index index{};
    for (;;) {  // bounded: by the extents
      visit(index);
      std::size_t d = 0;
      for (; d < rank(); ++d) {
        const bool stays = std::ranges::count(fixed, d) != 0;
        if (!stays && ++index[d] < sdsc_.dimensions[d].extent) break;
        index[d] = 0;
      }
      if (d == rank()) return;
    }
  }
  std::vector<unsigned> only_in(const SdscTensor& a, const SdscTensor& b) const {
    std::vector<unsigned> result;
    for (unsigned d = 0; d < rank(); ++d) {
      if (a.has(d) && !b.has(d)) result.push_back(d);
    }
    return result;
  }
  bool masked(const Index& index) const {
    return std::ranges::any_of(sdsc_.masks, [&](const MaskRange& mask) {
      return index[mask.dimension] >= mask.start && index[mask.dimension] - mask.start < mask.count;
    });
  }
  double constant(const char* name, double otherwise) const {
    const auto found = sdsc_.constants.find(name);
    return found == sdsc_.constants.end() ? otherwise : found->second;
  }

  // ---- places
  // Parts of a dimension, and the part that a core has: of the work, or of the tensor in a shuffle.
  std::uint32_t parts(const SdscTensor& tensor, unsigned d) const {
    if (sdsc_.op != OpFunc::Shuffle) return sdsc_.dimensions[d].slices;
    return std::max(tensor.parts[d], 1u);
  }
  std::uint32_t part_of(const SdscTensor& tensor, std::uint32_t core, unsigned d) const {
    return sdsc_.op == OpFunc::Shuffle && !tensor.owned.empty() ? tensor.owned[core][d] : sdsc_.slice[core][d];
  }
  // Whether the core works on the index of the tensor that lies in these parts; `all`: in dimensions that the tensor
  // has not, too.
  bool has(std::uint32_t core, const SdscTensor& tensor, const Index& parts_of_index, bool all) const {
    for (unsigned d = 0; d < rank(); ++d) {
      if (!all && !tensor.has(d)) continue;
      if (parts_of_index[d] != part_of(tensor, core, d)) return false;
    }
    return true;
  }
  // Of each dimension, the part in which the index lies.
  Index parts_of(const SdscTensor& tensor, const Index& index) const {
    Index result{};
    for (unsigned d = 0; d < rank(); ++d) {
      result[d] = index[d] / (sdsc_.dimensions[d].extent / parts(tensor, d));
    }
    return result;
  }
  std::uint32_t core_of(const SdscTensor& tensor, const Index& index) const {
    const Index wanted = parts_of(tensor, index);
    for (std::uint32_t core = 0; core < sdsc_.cores; ++core) {
      if (has(core, tensor, wanted, true)) return core;
    }
    throw NoReference("no core has an index");
  }
  // Of a tensor of the SDSC. Computed once for each core: it is asked for with each element.
  Place begin_of(const SdscTensor& tensor, std::uint32_t core) const {
    auto& begin = begins_.at(static_cast<std::size_t>(&tensor - sdsc_.tensors.data()) * kCores + core);
    if (!begin) begin = computed_begin_of(tensor, core);
    return *begin;
  }
  Place computed_begin_of(const SdscTensor& tensor, std::uint32_t core) const {
    if (tensor.memory == Memory::Lx)
      return {&machine_.scratchpads[core], static_cast<std::uint64_t>(tensor.start[core])};
    const SymbolicAddress& address = address_of(execution_, tensor.start[core]);
    std::int64_t at = address.offset;
    for (const LoopTerm& term : address.loops) at += term.factor * iterations_.at(term.loop);
    ReferenceMemory* const memory =
        address.base == SymbolicAddress::Base::Pool ? &machine_.pool : &machine_.arguments.at(address.argument);
    return {memory, static_cast<std::uint64_t>(at)};
  }
  // Elements of a dimension in the tensor's memory (of a core's part, in a scratchpad).
  std::uint32_t allocated(const SdscTensor& tensor, unsigned d) const {
    std::uint32_t elements = sdsc_.dimensions[d].extent;
    if (const auto whole = unpadded(tensor, d)) return whole->allocated;
    if (const Window* window = window_of(tensor, d)) return windowed_elements(*window, elements + tensor.gap[d]);
    if (tensor.memory == Memory::Lx) elements /= parts(tensor, d);
    return elements + tensor.gap[d];
  }
  // A restickify pads in its iteration space only: the dimension that is not the tensor's stick has its true size in
  // memory, and the gap says how many elements the padding added. Or the memory has as many as the iteration space or
  // more, and the gap is what does not exist of them: only the length of the argument tells the two apart.
  struct Unpadded {
    std::uint32_t allocated;
    std::uint32_t existing;
  };
  std::optional<Unpadded> unpadded(const SdscTensor& tensor, unsigned d) const {
    if (sdsc_.op != OpFunc::Restickify) return std::nullopt;
    const SdscTensor& other = &tensor == &output() ? input(0) : output();
    const std::uint32_t gap = tensor.gap[d], extent = sdsc_.dimensions[d].extent;
    const bool padded = gap != 0 && !tensor.stick_of(d) && other.stick_of(d) && sdsc_.dimensions[d].slices == 1;
    if (!padded) return std::nullopt;
    const SymbolicAddress* const address =
        tensor.memory == Memory::Lx ? nullptr : &address_of(execution_, tensor.start[0]);
    if (machine_.lengths.empty() || address == nullptr || address->base != SymbolicAddress::Base::Argument) {
      if (gap >= 64) return std::nullopt;
      return Unpadded{extent - gap, extent - gap};
    }
    std::uint64_t others = 128;
    for (const std::uint8_t e : tensor.order) {
      if (!tensor.has(e) || e == d) continue;
      const std::uint64_t per = tensor.stick_of(e) == nullptr ? 1 : tensor.stick_of(e)->size;
      others *= (sdsc_.dimensions[e].extent + tensor.gap[e] + per - 1) / per;
    }
    const auto elements = static_cast<std::uint32_t>(machine_.lengths.at(address->argument) / others);
    return Unpadded{elements, elements < extent ? elements : elements - gap};
  }
  // ---- windows
  const Window* window_of(const SdscTensor& tensor, unsigned d) const {
    return std::ranges::count(tensor.windowed, d) == 0 ? nullptr : sdsc_.window_of(d);
  }
  // Of a pool: `gapped` strides or elements, whichever gives the windows that there are; else what the window says.
  std::uint32_t windowed_elements(const Window& window, std::uint32_t gapped) const {
    const std::uint64_t taps = sdsc_.dimensions[window.taps].extent,
                        windows = sdsc_.dimensions[window.dimension].extent;
    const std::uint64_t first_window = (taps - 1) * window.dilation + 1;
    const auto gives_them = [&](std::uint64_t elements) {
      return elements >= first_window && (elements - first_window) / window.stride + 1 == windows;
    };
    if (sdsc_.op != OpFunc::AveragePool) return window.elements;
    if (gives_them(std::uint64_t{gapped} * window.stride)) return gapped * window.stride;
    return gives_them(gapped) ? gapped : window.elements;
  }
  // What cores are given for a tensor that is read through windows in HBM: the first one's holds for all.
  std::uint32_t core_of_address(const SdscTensor& tensor, std::uint32_t core) const {
    if (tensor.windowed.empty() || tensor.memory == Memory::Lx) return core;
    return core_of(tensor, Index{});
  }

  Place place(const SdscTensor& tensor, const Index& index, std::uint32_t core,
              const std::vector<std::uint8_t>& without = {}, std::int64_t pages = 0) const {
    core = core_of_address(tensor, core);
    Place result = begin_of(tensor, core);
    std::int64_t step = 128, at = 0, lane = 0;
    for (const std::uint8_t d : tensor.order) {
      if (!tensor.has(d) || std::ranges::count(without, d) != 0) continue;
      const Stick* const stick = tensor.stick_of(d);
      const std::uint32_t per = stick == nullptr ? 1 : stick->size;
      std::uint32_t local = index[d] - part_of(tensor, core, d) * (sdsc_.dimensions[d].extent / parts(tensor, d));
      if (const Window* window = window_of(tensor, d)) {
        local = local * window->stride + index[window->taps] * window->dilation;
      }
      at += step * (local / per);
      if (stick != nullptr) lane = local % per;
      step *= (allocated(tensor, d) + per - 1) / per;
    }
    result.at += static_cast<std::uint64_t>(at + lane * wire::program::item_bytes(tensor.format) + pages * step);
    return result;
  }

  // ---- elements
  static std::uint64_t bits_at(const Place& place, unsigned bytes) {
    if (place.at + bytes > place.memory->most) throw NoReference("a read outside of memory");
    std::uint64_t bits = 0;
    if (place.at + bytes > place.memory->bytes.size()) return bits;  // of a scratchpad, which nothing has written there
    std::memcpy(&bits, place.memory->bytes.data() + place.at, bytes);
    return bits;
  }
  static void set_bits(const Place& place, unsigned bytes, std::uint64_t bits, ByteState state) {
    if (place.at + bytes > place.memory->most) throw NoReference("a write outside of memory");
    if (place.at + bytes > place.memory->bytes.size()) {
      place.memory->bytes.resize(place.at + bytes);
      place.memory->states.resize(place.at + bytes);
    }
    std::memcpy(place.memory->bytes.data() + place.at, &bits, bytes);
    std::fill_n(place.memory->states.begin() + static_cast<std::ptrdiff_t>(place.at), bytes, state);
  }
  std::uint64_t bits(const SdscTensor& tensor, const Index& index) const {
    return bits_at(place(tensor, index, core_of(tensor, index)), wire::program::item_bytes(tensor.format));
  }
  double value(const SdscTensor& tensor, const Index& index) const {
    const std::uint64_t code = bits(tensor, index);
    if (tensor.format == Format::Fp32) return std::bit_cast<float>(static_cast<std::uint32_t>(code));
    return wire::fp64_from_dl16(static_cast<std::uint16_t>(code));
  }
  // Rounded once, to the tensor's format.
  static std::uint64_t code_of(const SdscTensor& tensor, double value) {
    if (tensor.format == Format::Fp32) {
      return std::isnan(value) ? 0x7FC00000 : std::bit_cast<std::uint32_t>(static_cast<float>(value));
    }
    return std::isnan(value) ? wire::kDl16Nan : wire::dl16_from_fp64(value);
  }
  // At the core of the index; in scratchpads at every core that has it. The other lanes of a stick with one element
  // are written too, with whatever.
  void put(const SdscTensor& tensor, const Index& index, std::uint64_t code) const {
    const unsigned bytes = wire::program::item_bytes(tensor.format);
    const bool all_lanes = alone(tensor);
    each_place(tensor, index, [&](const Place& at) {
      set_bits(at, bytes, code, ByteState::Defined);
      for (std::uint64_t lane = 1; all_lanes && lane < 128 / bytes; ++lane) {
        set_bits({at.memory, at.at + lane * bytes}, bytes, code, ByteState::Unspecified);
      }
    });
  }
  // One element in each stick.
  static bool alone(const SdscTensor& tensor) {
    return std::ranges::none_of(tensor.sticks, [&](const Stick& stick) { return tensor.has(stick.dimension); });
  }
  // Where an element is written: in scratchpads, for every core that has it.
  template <typename Visit>
  void each_place(const SdscTensor& tensor, const Index& index, Visit visit) const {
    if (tensor.memory != Memory::Lx) return visit(place(tensor, index, core_of(tensor, index)));
    const Index wanted = parts_of(tensor, index);
    for (std::uint32_t core = 0; core < sdsc_.cores; ++core) {
      if (has(core, tensor, wanted, false)) visit(place(tensor, index, core));
    }
  }
  void put(const SdscTensor& tensor, const Index& index, double value) const {
    put(tensor, index, code_of(tensor, value));
  }

  // ---- operations
  void element_by_element() const {
    struct Written {
      Index index;
      std::uint64_t code;
    };
    std::vector<Written> results;  // an output may be an input
    each([&](const Index& index) { results.push_back({index, result_of(index)}); });
    for (const Written& result : results) put(output(), result.index, result.code);
  }
  std::uint64_t result_of(const Index& index) const {
    if (sdsc_.op == OpFunc::Identity && input(0).format == output().format) return bits(input(0), index);
    if (sdsc_.op == OpFunc::Identity) return code_of(output(), value(input(0), index));
    const double a = value(input(0), index);
    const double b = sdsc_.inputs.size() > 1 ? value(input(1), index) : 0;
    if (sdsc_.op == OpFunc::Where) return bits(input(a != 0 ? 1 : 2), index);
    if (const auto of_table = function_of(index)) return *of_table;
    const std::uint64_t code = bits(input(0), index);
    const std::uint64_t sign = std::uint64_t{1} << (8 * wire::program::item_bytes(output().format) - 1);
    const auto rounded = [&](double exact) { return code_of(output(), static_cast<float>(exact)); };
    switch (sdsc_.op) {
      case OpFunc::Add: return rounded(a + b);
      case OpFunc::Sub: return rounded(a - b);
      case OpFunc::Mul: return rounded(a * b);
      case OpFunc::Div: return rounded(a / b);
      case OpFunc::Maximum: return rounded(larger(a, b));
      case OpFunc::Minimum: return rounded(smaller(a, b));
      case OpFunc::Equal: return rounded(a == b);
      case OpFunc::NotEqual: return rounded(a != b);
      case OpFunc::Greater: return rounded(a > b);
      case OpFunc::GreaterEqual: return rounded(a >= b);
      case OpFunc::Less: return rounded(a < b);
      case OpFunc::LessEqual: return rounded(a <= b);
      case OpFunc::Abs: return code & ~sign;
      case OpFunc::Neg: return code ^ sign;
      case OpFunc::Relu: return rounded(a > 0 || std::isnan(a) ? a : 0);
      case OpFunc::Floor: return rounded(std::floor(a));
      case OpFunc::Clip:
        return rounded(std::min(std::max(a, constant("clipMin", -HUGE_VAL)), constant("clipMax", HUGE_VAL)));
      default: throw NoReference("operation " + std::string(name_of(sdsc_.op)));
    }
  }
  std::optional<std::uint64_t> function_of(const Index& index) const {
    using wire::program::Opcode;
    static const std::map<OpFunc, Opcode> kFunctions{{OpFunc::Exp, Opcode::Exp},
                                                     {OpFunc::Log, Opcode::Log},
                                                     {OpFunc::Sqrt, Opcode::Sqrt},
                                                     {OpFunc::Rsqrt, Opcode::Rsqrt},
                                                     {OpFunc::Reciprocal, Opcode::Reciprocal},
                                                     {OpFunc::Sigmoid, Opcode::Sigmoid},
                                                     {OpFunc::Tanh, Opcode::Tanh},
                                                     {OpFunc::Silu, Opcode::Silu},
                                                     {OpFunc::Gelu, Opcode::Gelu}};
    const auto found = kFunctions.find(sdsc_.op);
    if (found == kFunctions.end()) return std::nullopt;
    if (masked(index)) return code_of(output(), std::exp(constant("samv-maskvalue", 0)));
    if (input(0).format != Format::Dl16)
      return code_of(output(), svp::program::function_fp64(found->second, value(input(0), index)));
    return svp::program::function_dl16(found->second, static_cast<wire::Dl16>(bits(input(0), index)));
  }

  void restickify() const {
    each([&](const Index& index) {
      bool exists = true, padding = false;
      for (unsigned d = 0; d < rank(); ++d) {
        if (const auto whole = unpadded(output(), d); whole && index[d] >= whole->existing) exists = false;
        if (const auto whole = unpadded(input(0), d); whole && index[d] >= whole->existing) padding = true;
      }
      if (exists) put(output(), index, padding ? 0 : bits(input(0), index));
    });
  }

  // All bytes of sticks with one element, which may be a pair. What was left open stays so.
  void copy_sticks() const {
    struct Read {
      Index index;
      std::array<std::byte, 128> bytes{};
      ByteState first = ByteState::Defined;
      std::optional<std::pair<double, double>> pair;
    };
    std::vector<Read> sticks;
    each([&](const Index& index) {
      Read& read = sticks.emplace_back(index);
      const Place at = place(input(0), index, core_of(input(0), index));
      for (unsigned byte = 0; byte < 128; ++byte) {
        read.bytes[byte] = static_cast<std::byte>(bits_at({at.memory, at.at + byte}, 1));
      }
      if (at.at < at.memory->states.size() && at.memory->states[at.at] == ByteState::Unspecified) {
        read.first = ByteState::Unspecified;
      }
      const auto found = machine_.pairs.find({at.memory, at.at});
      if (found != machine_.pairs.end()) read.pair = found->second;
    });
    const unsigned element = wire::program::item_bytes(output().format);
    for (const Read& read : sticks) {
      each_place(output(), read.index, [&](const Place& at) {
        for (unsigned byte = 0; byte < 128; ++byte) {
          set_bits({at.memory, at.at + byte}, 1, std::to_integer<std::uint64_t>(read.bytes[byte]),
                   byte < element ? read.first : ByteState::Unspecified);
        }
        machine_.pairs.erase({at.memory, at.at});
        if (read.pair) machine_.pairs[{at.memory, at.at}] = *read.pair;
      });
    }
  }

  void shuffle() const {
    std::vector<std::pair<Index, std::uint64_t>> all;
    each([&](const Index& index) { all.emplace_back(index, bits(input(0), index)); });
    for (const auto& [index, code] : all) put(output(), index, code);
  }

  void indexed() const {
    const SdscTensor& index_tensor = sdsc_.tensors[sdsc_.indices[0]];
    const bool scatters = output().indirection == Indirection::Value;
    const SdscTensor& selected = scatters ? output() : input(0);
    std::vector<std::uint8_t> without;
    for (const std::uint8_t d : index_tensor.order) {
      if (selected.has(d)) without.push_back(d);
    }
    const unsigned bytes = wire::program::item_bytes(selected.format);
    each([&](const Index& index) {
      const auto page = static_cast<std::int32_t>(bits(index_tensor, index));
      const Place there = place(selected, index, 0, without, page);
      if (scatters) {
        set_bits(there, bytes, bits(input(0), index), ByteState::Defined);
      } else {
        put(output(), index, bits_at(there, bytes));
      }
    });
  }

  void reduce() const {
    const std::vector<unsigned> reduced = only_in(input(0), output());
    std::vector<std::pair<Index, double>> results;
    each([&](const Index& first) { results.emplace_back(first, reduced_at(first, reduced)); }, reduced);
    for (const auto& [index, result] : results) put(output(), index, result);
  }
  double reduced_at(const Index& first, const std::vector<unsigned>& reduced) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double sum = 0, product = 1, most = -kInfinity, least = kInfinity;
    std::vector<unsigned> others;
    for (unsigned d = 0; d < rank(); ++d) {
      if (std::ranges::count(reduced, d) == 0) others.push_back(d);
    }
    each(
        [&](Index index) {
          for (const unsigned d : others) index[d] = first[d];
          if (masked(index)) return;
          const double x = value(input(0), index);
          sum += x;
          product *= x;
          most = larger(most, x);
          least = smaller(least, x);
        },
        others);
    switch (sdsc_.op) {
      case OpFunc::Sum: return sum;
      case OpFunc::Mean: return sum * constant("scaling_factor", 1);
      case OpFunc::Max: return most;
      case OpFunc::Min: return least;
      default: return product;
    }
  }

  // An average, or a sum of products with a weight, over all that the output lacks. Of each product of a channel with
  // its weight, both of the tensors have the channel.
  // A convolution is a matrix product, which has no infinities; by depth its products are those of IEEE 754.
  double product(double a, double b) const {
    const bool exact = sdsc_.op == OpFunc::Conv2d;
    return exact && !(std::isfinite(a) && std::isfinite(b)) ? std::nan("") : a * b;
  }
  void sum_windows() const {
    std::vector<unsigned> summed, kept;
    for (unsigned d = 0; d < rank(); ++d) (output().has(d) ? kept : summed).push_back(d);
    const bool average = sdsc_.op == OpFunc::AveragePool;
    std::vector<std::pair<Index, double>> results;
    each(
        [&](const Index& first) {
          double sum = 0;
          each(
              [&](Index index) {
                for (const unsigned d : kept) index[d] = first[d];
                sum += average ? value(input(0), index) : product(value(input(0), index), value(input(1), index));
              },
              kept);
          results.emplace_back(first, average ? sum * constant("nmap", 0) : sum);
        },
        summed);
    for (const auto& [index, result] : results) put(output(), index, result);
  }

  void multiply() const {
    std::vector<unsigned> contracted;
    for (unsigned d = 0; d < rank(); ++d) {
      if (input(0).has(d) && input(1).has(d) && !output().has(d)) contracted.push_back(d);
    }
    each(
        [&](const Index& first) {
          double sum = 0;
          for (std::uint32_t k = 0; k < sdsc_.dimensions[contracted.at(0)].extent; ++k) {
            Index index = first;
            index[contracted[0]] = k;
            const double a = value(input(0), index), b = value(input(1), index);
            sum += std::isfinite(a) && std::isfinite(b) ? a * b : std::nan("");
          }
          put(output(), first, sum);
        },
        contracted);
  }

  // DL16 lane 8k + w of a stick lies with FP32 in lane 4k + w mod 4 of the first (w < 4) or second of two sticks.
  void stagger(const SdscTensor& wide, const SdscTensor& half) const {
    const bool widens = &half == &input(0);
    const unsigned d = half.sticks.back().dimension;
    each([&](const Index& index) {
      const std::uint32_t lane = index[d] % 64, k = lane / 8, w = lane % 8;
      Index other = index;
      other[d] = index[d] - lane + (w < 4 ? 4 * k + w : 32 + 4 * k + w - 4);
      if (widens) {
        put(output(), other, value(half, index));
      } else {
        put(output(), index, value(wide, other));
      }
    });
  }

  void top_k() const {
    const std::vector<unsigned> searched = only_in(input(0), output());
    std::vector<unsigned> ranks = only_in(output(), input(0));
    std::vector<unsigned> fixed = searched;
    fixed.insert(fixed.end(), ranks.begin(), ranks.end());
    each(
        [&](const Index& first) {
          std::vector<std::pair<double, std::uint32_t>> found;
          std::vector<std::uint64_t> codes;
          for (std::uint32_t i = 0; i < sdsc_.dimensions[searched.at(0)].extent; ++i) {
            Index index = first;
            index[searched[0]] = i;
            found.emplace_back(value(input(0), index), i);
            codes.push_back(bits(input(0), index));
          }
          std::ranges::sort(found, [](const auto& a, const auto& b) {
            if (std::isnan(a.first) != std::isnan(b.first)) return std::isnan(a.first);
            const bool tied = std::isnan(a.first) || a.first == b.first;
            return tied ? a.second < b.second : a.first > b.first;
          });
          const std::uint32_t count = ranks.empty() ? 1 : sdsc_.dimensions[ranks[0]].extent;
          for (std::uint32_t rank_of = 0; rank_of < count; ++rank_of) {
            Index index = first;
            if (!ranks.empty()) index[ranks[0]] = rank_of;
            const std::uint32_t at = found.at(rank_of).second;
            const auto number = static_cast<double>(at);
            put(output(), index, sdsc_.op == OpFunc::TopKValue ? codes.at(at) : code_of(output(), number));
          }
        },
        fixed);
  }

  // ---- normalisation
  void exx2() const {
    const std::vector<unsigned> reduced = only_in(input(0), output());
    const double scale = constant("exx2scale", 1);
    each(
        [&](const Index& first) {
          double sum = 0, squares = 0;
          for (std::uint32_t i = 0; i < sdsc_.dimensions[reduced.at(0)].extent; ++i) {
            Index index = first;
            index[reduced[0]] = i;
            if (masked(index)) continue;
            const double x = value(input(0), index);
            if (input(0).format == Format::Dl16 && !std::isfinite(x)) sum = squares = std::nan("");
            sum += x;
            squares += x * x;
          }
          put_pair(first, {scale * sum, scale * squares});
        },
        reduced);
  }
  void put_pair(const Index& index, std::pair<double, double> pair) const {
    each_place(output(), index, [&](const Place& at) {
      machine_.pairs[{at.memory, at.at}] = pair;
      for (unsigned byte = 0; byte < 128; ++byte) set_bits({at.memory, at.at + byte}, 1, 0, ByteState::Unspecified);
    });
  }
  std::pair<double, double> pair_of(const SdscTensor& tensor, const Index& index) const {
    const Place at = place(tensor, index, core_of(tensor, index));
    const auto found = machine_.pairs.find({at.memory, at.at});
    if (found == machine_.pairs.end()) throw NoReference("a pair that exx2 has not made");
    return found->second;
  }
  void layer_norm_scale() const {
    each([&](const Index& index) {
      const auto [m, q] = pair_of(input(0), index);
      put(output(), index, 1 / std::sqrt(q - m * m + constant("eps", 0)));
    });
  }
  void layer_norm() const {
    each([&](const Index& index) {
      const auto [m, q] = pair_of(input(1), index);
      put(output(), index,
          (value(input(0), index) - m) * value(input(2), index) * value(input(3), index) + value(input(4), index));
    });
  }

  Machine& machine_;
  const Sdsc& sdsc_;
  const Execution& execution_;
  const std::vector<std::uint32_t>& iterations_;
  mutable std::vector<std::optional<Place>> begins_;  // by tensor and core
};

void run_body(Machine& machine, const Bundle& bundle, const std::vector<Statement>& body,
              std::vector<std::uint32_t>& iterations) {
  for (const Statement& statement : body) {
    if (const auto* execution = std::get_if<Execution>(&statement.what)) {
      Run(machine, bundle.of(*execution), *execution, iterations).run();
      continue;
    }
    const auto& loop = std::get<Loop>(statement.what);
    iterations.push_back(0);
    for (; iterations.back() < loop.count; ++iterations.back()) run_body(machine, bundle, loop.body, iterations);
    iterations.pop_back();
  }
}

}  // namespace

ReferenceScratchpads::ReferenceScratchpads() : of_core(kCores) {
  for (ReferenceMemory& scratchpad : of_core) scratchpad.most = kScratchpadBytes;
}

std::vector<ReferenceMemory> run_reference(const Bundle& bundle, const std::vector<std::vector<std::byte>>& arguments,
                                           const std::vector<std::uint64_t>& lengths) {
  ReferenceScratchpads scratchpads;
  return run_reference(bundle, arguments, scratchpads, lengths);
}

std::vector<ReferenceMemory> run_reference(const Bundle& bundle, const std::vector<std::vector<std::byte>>& arguments,
                                           ReferenceScratchpads& scratchpads,
                                           const std::vector<std::uint64_t>& lengths) {
  Machine machine{.arguments = {},
                  .lengths = lengths,
                  .pool = ReferenceMemory(bundle.text.pool_bytes + 4096),
                  .scratchpads = scratchpads.of_core,
                  .pairs = {}};
  for (const auto& bytes : arguments) {
    machine.arguments.emplace_back(bytes.size());
    machine.arguments.back().bytes = bytes;
  }
  std::vector<std::uint32_t> iterations;
  run_body(machine, bundle, bundle.text.body, iterations);
  return std::move(machine.arguments);
}

}  // namespace test
