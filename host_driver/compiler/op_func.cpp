// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/op_func.hpp"

#include <array>
#include <cstddef>

namespace svp::compiler {

namespace {

// In the order of OpFunc.
constexpr std::array<std::string_view, kOpFuncs> kNames{"identity",
                                                        "ReStickifyOpHBM",
                                                        "shuffle",
                                                        "add",
                                                        "sub",
                                                        "mul",
                                                        "realdiv",
                                                        "maximum",
                                                        "minimum",
                                                        "equal",
                                                        "notequal",
                                                        "greaterthan",
                                                        "greaterequal",
                                                        "lesserthan",
                                                        "lesserequal",
                                                        "where3",
                                                        "abs",
                                                        "neg",
                                                        "relufwd",
                                                        "floor",
                                                        "clip",
                                                        "exp",
                                                        "log",
                                                        "sqrt",
                                                        "rsqrt",
                                                        "reciprocal",
                                                        "sigmoid",
                                                        "tanh",
                                                        "silu",
                                                        "gelufwd",
                                                        "softplus",
                                                        "sum",
                                                        "mean",
                                                        "max",
                                                        "min",
                                                        "prod",
                                                        "exx2",
                                                        "layernormscale",
                                                        "layernormnorm",
                                                        "batchmatmul",
                                                        "batchmatmulfp8",
                                                        "topkvalue",
                                                        "topkindex",
                                                        "dl16tofp32",
                                                        "fp32todl16",
                                                        "qfp8ch",
                                                        "fp8todl16",
                                                        "qfp8wt",
                                                        "avgpoolfwd",
                                                        "conv2d",
                                                        "depthwiseconv2dnative"};
static_assert(kNames.back() == "depthwiseconv2dnative" &&
              static_cast<unsigned>(OpFunc::DepthwiseConv2d) + 1 == kOpFuncs);

constexpr std::string_view kNonStick = "nonstick";

}  // namespace

std::string_view name_of(OpFunc op) { return kNames[static_cast<std::size_t>(op)]; }

std::optional<OpFunc> op_func_of(std::string_view name) {
  const bool non_stick = name.ends_with(kNonStick);
  if (non_stick) name.remove_suffix(kNonStick.size());
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const auto op = static_cast<OpFunc>(i);
    if (kNames[i] == name && (!non_stick || is_reduction(op))) return op;
  }
  return std::nullopt;
}

}  // namespace svp::compiler
