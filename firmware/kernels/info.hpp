// SPDX-License-Identifier: Apache-2.0
// How a kernel describes itself. The description is compiled into the kernel's ELF file (never loaded), checked by the
// correction program against what the host sends, and written out as the metadata file by tools/pack_image.cpp; so
// code, image and metadata can not disagree. Plain arrays only: no relocations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/kernel_abi.hpp"

namespace kernel {

inline constexpr std::size_t kMaxKernelOperands = 4;
inline constexpr std::size_t kMaxKernelSymbols = 16;
inline constexpr std::size_t kMaxOperandRank = 4;

enum class Access : std::uint32_t { None = 0, Read = 1, Write = 2, ReadWrite = 3 };

// A short name in place, so that it needs no pointer.
template <std::size_t kSize>
struct Text {
  char characters[kSize]{};
  constexpr Text() = default;
  template <std::size_t kLength>
  constexpr Text(const char (&literal)[kLength]) {  // NOLINT: a literal is meant to become a name
    static_assert(kLength <= kSize, "name too long");
    for (std::size_t i = 0; i + 1 < kLength; ++i) characters[i] = literal[i];
  }
  constexpr bool empty() const { return characters[0] == '\0'; }
};

using DimensionName = Text<8>;

// A DL16 tensor in default stick layout. A dimension is the name of a dimension symbol; every launch binds it.
struct OperandInfo {
  Text<8> name{};
  Access access = Access::None;
  DimensionName shape[kMaxOperandRank]{};
};

// Address: operand. Stride: operand, and the dimension whose outer copy (sticks of 64) the stride advances, in bytes.
// Dimension: name; the operand is the first that has it. Partials and Pass: an output; together they let a launch tile
// a dimension that the output lacks.
struct SymbolInfo {
  wire::SymbolKind kind{};
  std::uint32_t operand = 0;
  DimensionName dimension{};
  bool used = false;
};

constexpr SymbolInfo address_of(std::uint32_t operand) { return {wire::SymbolKind::Address, operand, {}, true}; }
constexpr SymbolInfo stride_of(std::uint32_t operand, DimensionName dimension) {
  return {wire::SymbolKind::Stride, operand, dimension, true};
}
constexpr SymbolInfo extent_of(std::uint32_t operand, DimensionName dimension) {
  return {wire::SymbolKind::Dimension, operand, dimension, true};
}

constexpr SymbolInfo partials_of(std::uint32_t operand) { return {wire::SymbolKind::Partials, operand, {}, true}; }
constexpr SymbolInfo pass_of(std::uint32_t operand) { return {wire::SymbolKind::Pass, operand, {}, true}; }

struct KernelInfo {
  Text<32> name{};
  std::uint64_t scratchpad_bytes = 0;
  OperandInfo operands[kMaxKernelOperands]{};
  SymbolInfo symbols[kMaxKernelSymbols]{};
  bool any_symbols = false;  // it has its own correction program, which reads a tensor of any size

  constexpr std::uint32_t symbol_count() const {
    std::uint32_t count = 0;
    while (count < kMaxKernelSymbols && symbols[count].used) ++count;
    return count;
  }
};

// What the correction program compares with the symbols of a launch; this part is loaded, as a constant beside the
// text.
struct SymbolKeys {
  std::uint64_t count = 0;
  struct Key {
    wire::SymbolKind kind{};
    std::uint32_t operand = 0;
  } key[kMaxKernelSymbols]{};
};

constexpr SymbolKeys keys_of(const KernelInfo& info) {
  SymbolKeys keys;
  keys.count = info.symbol_count();
  for (std::size_t i = 0; i < keys.count; ++i) keys.key[i] = {info.symbols[i].kind, info.symbols[i].operand};
  return keys;
}

}  // namespace kernel
