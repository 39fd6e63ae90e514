// SPDX-License-Identifier: Apache-2.0
// How a kernel describes itself. The description is compiled into the kernel's ELF file (never loaded), checked by the
// correction program against what the host sends, and written out as the metadata file by tools/pack_image.cpp; so
// code, image and metadata can not disagree. Plain arrays only: no relocations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/kernel_abi.hpp"

namespace kernel {

inline constexpr std::size_t kMaxKernelOperands = 16;
inline constexpr std::size_t kMaxKernelSymbols = wire::kMaxSymbols;  // what a correction tensor holds
inline constexpr std::size_t kMaxOperandRank = 6;

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

// Of the elements; the metadata names them by kFormatNames.
enum class Format : std::uint32_t { Dl16, Fp32, Int32, Int16, Int8, Uint32, Fp8E4m3, Fp8E5m2 };
inline constexpr const char* kFormatNames[] = {"dl16", "fp32",   "int32",   "int16",
                                               "int8", "uint32", "fp8e4m3", "fp8e5m2"};

// A tensor in default stick layout. A dimension is the name of a dimension symbol; every launch binds it. An operand
// without a dimension is a scalar: one stick, the element in lane 0.
struct OperandInfo {
  Text<8> name{};
  Access access = Access::None;
  DimensionName shape[kMaxOperandRank]{};
  Format format = Format::Dl16;
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
  std::uint64_t table_bytes = 0;  // at most, that a HostOperation of the job's own puts behind the symbols: table()
  bool any_symbols = false;       // it has its own correction program, which reads a tensor of any size

  constexpr std::uint32_t symbol_count() const {
    std::uint32_t count = 0;
    while (count < kMaxKernelSymbols && symbols[count].used) ++count;
    return count;
  }
};

// What the correction program compares with the symbols of a launch; this part is loaded, as constants beside the text.
// As long as the kernel has symbols: what is loaded is copied for launches.
struct SymbolKey {
  wire::SymbolKind kind{};
  std::uint32_t operand = 0;
};

constexpr std::size_t room_for_symbols(const KernelInfo& info) {
  return info.symbol_count() == 0 ? 1 : info.symbol_count();
}

template <std::size_t kCount>
struct SymbolKeys {
  SymbolKey key[kCount]{};
};

template <std::size_t kCount>
constexpr SymbolKeys<kCount> keys_of(const KernelInfo& info) {
  SymbolKeys<kCount> keys;
  for (std::size_t i = 0; i < info.symbol_count(); ++i) keys.key[i] = {info.symbols[i].kind, info.symbols[i].operand};
  return keys;
}

}  // namespace kernel
