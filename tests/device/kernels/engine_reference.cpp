// SPDX-License-Identifier: Apache-2.0
#include "tests/device/kernels/engine_reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "shared/dl16.hpp"

namespace kernel_test {
namespace {

using program::Base;
using program::Format;
using program::Opcode;
using program::Operand;
using program::Operation;

using Index = std::uint32_t[program::kMaxRank];

class Interpreter {
 public:
  Interpreter(const Program& executed, std::vector<Bytes>& arguments, Bytes& workspace)
      : program_(executed), arguments_(arguments), workspace_(workspace) {}

  void run() {
    std::uint32_t first[program::kMaxLoops];
    std::uint32_t number = 0;
    while (number < program_.operations.size()) {
      const Operation& operation = program_.operations[number++];
      if (operation.opcode == Opcode::LoopBegin) {
        first[depth_] = number;
        count_[depth_] = operation.extent[0];
        iteration_[depth_++] = 0;
      } else if (operation.opcode == Opcode::LoopEnd) {
        if (++iteration_[depth_ - 1] < count_[depth_ - 1]) {
          number = first[depth_ - 1];
        } else {
          --depth_;
        }
      } else {
        execute(operation);
      }
    }
  }

 private:
  std::byte* base(const Operand& operand) {
    switch (operand.base) {
      case Base::Argument: return arguments_[operand.argument].data();
      case Base::Data: return const_cast<std::byte*>(program_.data.data());
      case Base::Pool: return workspace_.data();
      case Base::Scratchpad: return workspace_.data() + program_.header.pool_bytes;
      case Base::None: break;
    }
    throw std::logic_error("an operand without a base");
  }

  std::byte* element(const Operation& operation, const Operand& operand, const Index& index) {
    std::byte* at = base(operand) + operand.offset;
    for (unsigned l = 0; l < depth_; ++l) at += operand.loop_stride[l] * iteration_[l];
    for (unsigned d = 0; d < operation.rank; ++d) {
      std::uint32_t n = index[d];
      if (operand.base == Base::Scratchpad && operand.split[d] > 1) {
        const std::uint32_t part = operation.extent[d] / operand.split[d];
        at += std::uint64_t{n / part} * operand.split_stride[d] * program_.header.scratchpad_bytes;
        n %= part;
      }
      if ((operand.present >> d & 1) == 0) continue;
      if (d == operand.stick_dim) {
        const unsigned lanes = program::lanes_of(operand.format);
        at += operand.stride[d] * (n / lanes) + n % lanes * program::item_bytes(operand.format);
      } else {
        at += operand.stride[d] * n;
      }
    }
    return at;
  }

  std::uint32_t load(const Operation& operation, unsigned o, const Index& index) {
    std::uint32_t value = 0;
    const Operand& operand = operation.operand[o];
    std::memcpy(&value, element(operation, operand, index), program::item_bytes(operand.format));
    return value;
  }

  void store(const Operation& operation, const Index& index, std::uint32_t value) {
    const Operand& operand = operation.operand[operation.operand_count - 1];
    const unsigned bytes = program::item_bytes(operand.format);
    std::byte* at = element(operation, operand, index);
    const unsigned copies = operand.stick_dim == program::kNoDimension ? program::lanes_of(operand.format) : 1;
    for (unsigned i = 0; i < copies; ++i) std::memcpy(at + i * bytes, &value, bytes);
  }

  void execute(const Operation& operation) {
    const Operand& output = operation.operand[operation.operand_count - 1];
    Index end{};
    Index index{};
    for (unsigned d = 0; d < operation.rank; ++d) {
      end[d] = operation.extent[d];
      if (d == output.stick_dim) end[d] = wire::align_up(end[d], program::lanes_of(output.format));
    }
    for (;;) {
      store(operation, index, value(operation, index));
      unsigned d = 0;
      for (; d < operation.rank && ++index[d] == end[d]; ++d) index[d] = 0;
      if (d == operation.rank) return;
    }
  }

  bool is_masked(const Operation& operation, const Index& index) {
    return std::any_of(operation.mask, operation.mask + operation.mask_count, [&](const program::Mask& mask) {
      return index[mask.dimension] >= mask.start && index[mask.dimension] - mask.start < mask.count;
    });
  }

  std::uint32_t value(const Operation& operation, const Index& index);
  std::uint32_t restickified(const Operation& operation, const Index& index) {
    const Operand& output = operation.operand[1];
    if (index[output.stick_dim] >= operation.extent[output.stick_dim]) return 0;
    return load(operation, 0, index);
  }

  const Program& program_;
  std::vector<Bytes>& arguments_;
  Bytes& workspace_;
  unsigned depth_ = 0;
  std::uint32_t iteration_[program::kMaxLoops]{};
  std::uint32_t count_[program::kMaxLoops]{};
};

float as_float(Format format, std::uint32_t bits) {
  return format == Format::Dl16 ? wire::fp32_from_dl16(static_cast<wire::Dl16>(bits)) : std::bit_cast<float>(bits);
}

std::uint32_t as_bits(Format format, float value) {
  if (format == Format::Dl16) return std::isnan(value) ? wire::kDl16Nan : wire::dl16_from_fp32(value);
  return std::isnan(value) ? 0x7FC00000u : std::bit_cast<std::uint32_t>(value);
}

float larger(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return NAN;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
float smaller(float a, float b) { return -larger(-a, -b); }

bool is_zero(Format format, std::uint32_t bits) {
  if (format == Format::Dl16) return (bits & 0x7FFF) == 0;
  if (format == Format::Fp32) return (bits & 0x7FFFFFFF) == 0;
  if (format == Format::Fp8E4m3 || format == Format::Fp8E5m2) return (bits & 0x7F) == 0;
  return bits == 0;
}

std::uint32_t Interpreter::value(const Operation& operation, const Index& index) {
  const Format format = operation.operand[operation.operand_count - 1].format;
  if (operation.opcode == Opcode::Restickify) return restickified(operation, index);
  if (is_masked(operation, index)) return as_bits(format, std::bit_cast<float>(operation.mask_value));
  const std::uint32_t bits = load(operation, 0, index);
  const std::uint32_t sign = format == Format::Dl16 ? 0x8000 : 0x80000000;
  const float a = as_float(format, bits);
  const auto b = [&] { return as_float(format, load(operation, 1, index)); };
  const auto rounded = [&](unsigned i) {
    return as_float(format, as_bits(format, std::bit_cast<float>(operation.constant[i])));
  };
  switch (operation.opcode) {
    case Opcode::Copy: return bits;
    case Opcode::Add: return as_bits(format, a + b());
    case Opcode::Sub: return as_bits(format, a - b());
    case Opcode::Mul: return as_bits(format, a * b());
    case Opcode::Div: return as_bits(format, a / b());
    case Opcode::Maximum: return as_bits(format, larger(a, b()));
    case Opcode::Minimum: return as_bits(format, smaller(a, b()));
    case Opcode::Equal: return as_bits(format, a == b() ? 1 : 0);
    case Opcode::NotEqual: return as_bits(format, a != b() ? 1 : 0);
    case Opcode::Greater: return as_bits(format, a > b() ? 1 : 0);
    case Opcode::GreaterEqual: return as_bits(format, a >= b() ? 1 : 0);
    case Opcode::Less: return as_bits(format, a < b() ? 1 : 0);
    case Opcode::LessEqual: return as_bits(format, a <= b() ? 1 : 0);
    case Opcode::Where: return load(operation, is_zero(operation.operand[0].format, bits) ? 2 : 1, index);
    case Opcode::Abs: return bits & ~sign;
    case Opcode::Neg: return bits ^ sign;
    case Opcode::Relu: return as_bits(format, a > 0 || std::isnan(a) ? a : 0);
    case Opcode::Clip: return as_bits(format, smaller(larger(a, rounded(0)), rounded(1)));
    case Opcode::Floor: return as_bits(format, std::floor(a));
    default: break;
  }
  std::uint16_t result;
  std::memcpy(&result, base(operation.operand[1]) + operation.operand[1].offset + bits * 2, 2);
  return result;
}

}  // namespace

void execute_on_host(const Program& executed, std::vector<Bytes>& arguments, Bytes& workspace) {
  Interpreter(executed, arguments, workspace).run();
}

}  // namespace kernel_test
