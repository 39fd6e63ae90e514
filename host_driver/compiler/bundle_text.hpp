// SPDX-License-Identifier: Apache-2.0
// bundle.mlir: the list of executions of a bundle, in loops, with the addresses that each of them is given. A parser of
// the statements that torch-spyre writes (a subset of MLIR with the dialect sdscbundle); everything else is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host_driver/compiler/symbolic_address.hpp"

namespace svp::compiler {

// One run of an SDSC: what each of its symbol ids stands for.
struct Execution {
  struct Binding {
    std::int64_t id = 0;
    SymbolicAddress address;
  };
  std::string sdsc_file;          // a plain name
  std::vector<Binding> bindings;  // by id, the largest first, as torch-spyre counts: -1, -2, …
  unsigned line = 0;
};

struct Statement;

struct Loop {
  std::uint32_t count = 0;  // iterations: 0, 1, … count - 1
  std::vector<Statement> body;
  unsigned line = 0;
};

struct Statement {
  std::variant<Loop, Execution> what;
};

// A parameter that is no tensor: what torch-spyre writes of a dimension that mark_dynamic names.
struct DynamicSize {
  std::string parameter;
  std::string bounds;  // "granularity=64, max_value=512"
  unsigned line = 0;
};

struct BundleText {
  std::vector<std::string> parameters;  // names, in order: the tensors of a launch
  std::uint64_t pool_bytes = 0;         // 0: no pool
  std::vector<Statement> body;
  std::optional<DynamicSize> dynamic_size;  // the first one; read_bundle() refuses it
};

inline constexpr const char* kBundleFileName = "bundle.mlir";
inline constexpr std::size_t kMostBundleBytes = 4u << 20;
inline constexpr std::uint32_t kMostExecutions = 4096;  // as many operations a program has
inline constexpr unsigned kMostNestedLoops = 16;
inline constexpr std::uint32_t kMostParameters = 4096;

// Throws InvalidPlan (the line) for what is no such text, for names that are used before or defined twice, and for
// addresses that do not fit 64 bits.
BundleText parse_bundle_text(std::string_view text);

}  // namespace svp::compiler
