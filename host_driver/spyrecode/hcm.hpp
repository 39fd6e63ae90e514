// SPDX-License-Identifier: Apache-2.0
// The member `hcm` of a ComputeOnHost (docs/spyrecode.md): how the correction tensor of a launch is made. The format is
// this project's own; a compiler for this card writes it, and nobody else reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/kernel_abi.hpp"

namespace svp::spyrecode {

inline constexpr std::size_t kMostInputs = 124;  // operands of a launch
inline constexpr std::uint32_t kMostAxes = 8;

constexpr bool has_axis(wire::SymbolKind kind) {
  return kind == wire::SymbolKind::Stride || kind == wire::SymbolKind::Dimension;
}

// One symbol of the correction tensor. `input` is an index into Hcm::inputs.
//   Address     where the tensor begins
//   Stride      bytes from one step of `axis` to the next; of the stick dimension, from one stick to the next
//   Dimension   extent of `axis` of the tile, in elements
//   Partials    where the partial results of an output lie, when it takes several passes
//   Pass        where in its reduction the tile stands (wire::kPassFirst, kPassLast)
struct HcmSymbol {
  wire::SymbolKind kind = wire::SymbolKind::Address;
  std::uint32_t input = 0;
  std::uint32_t axis = 0;  // has_axis()
  friend bool operator==(const HcmSymbol&, const HcmSymbol&) = default;
};

struct Hcm {
  std::vector<std::uint32_t> inputs;  // vdci.inputSym: which tensors of the launch are read
  std::vector<HcmSymbol> symbols;     // in the order of the correction tensor
  friend bool operator==(const Hcm&, const Hcm&) = default;
};

// `json` is the member's text. Throws InvalidPlan; its field is the path below `path`
// ("JobExecPlan[0].properties.hcm"). What holds of the result: at most kMostInputs inputs and wire::kMaxSymbols
// symbols, every `input` is an index of `inputs`, every axis is below kMostAxes.
Hcm parse_hcm(std::string_view json, const std::string& path);
std::string to_json(const Hcm& hcm);

// "address", "stride", "dimension", "partials", "pass".
const char* name_of(wire::SymbolKind kind);

}  // namespace svp::spyrecode
