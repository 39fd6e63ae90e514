// SPDX-License-Identifier: Apache-2.0
// The metadata file beside a kernel image: refused by InvalidArgument that names the field, or consistent in itself.
#include "host_driver/runtime/kernel.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

void expect_consistent(const svp::KernelMetadata& kernel) {
  using fuzz::require;
  require(kernel.operands.size() <= svp::kMaxOperands, "operands are bounded");
  require(kernel.dimensions.size() <= svp::kMaxDimensions, "dimensions are bounded");
  for (const auto& operand : kernel.operands) {
    for (const std::uint32_t dimension : operand.shape) {
      require(dimension < kernel.dimensions.size(), "a shape names dimensions that exist");
    }
  }
  for (const auto& symbol : kernel.symbols) {
    if (symbol.kind == wire::SymbolKind::Dimension) {
      require(symbol.dimension < kernel.dimensions.size(), "a symbol names a dimension that exists");
    } else {
      require(symbol.operand < kernel.operands.size(), "a symbol names an operand that exists");
    }
  }
}

}  // namespace

void fuzz::run(Input input) {
  try {
    expect_consistent(svp::parse_kernel_metadata(input.rest_as_text()));
  } catch (const svp::InvalidArgument& error) {
    require(!error.field().empty() && error.what()[0] != 0, "a refusal names the field and says why");
  }
}
