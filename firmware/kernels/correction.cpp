// SPDX-License-Identifier: Apache-2.0
// The correction program, the same in every image: reads the correction tensor of the launch, converts each symbol into
// the value that the compute program works with, writes it into the literal pool, and jumps to the compute program.
#include "firmware/kernels/region_map.hpp"
#include "firmware/kernels/sdk.hpp"

extern "C" {
[[gnu::visibility("hidden")]] extern const std::uint64_t kernel_symbol_count;
[[gnu::visibility("hidden")]] extern const kernel::SymbolKey kernel_symbol_keys[];  // SymbolKeys::key of the kernel

void correction_entry(const wire::KernelArguments* arguments);
void compute_entry(const wire::KernelArguments* arguments);
}

namespace {

std::uint64_t address_of(const wire::CorrectionHeader& header, const wire::CorrectionSymbol& symbol) {
  const auto address = kernel::virtual_address(header, symbol);
  if (!address) kernel::exit(kernel::kCorrectionUnknownRegion);
  return *address;
}

bool is_address(const wire::CorrectionSymbol& symbol) {
  if (symbol.kind == wire::SymbolKind::Partials) return symbol.region_id != wire::kNoRegion;
  return symbol.kind == wire::SymbolKind::Address;
}

void apply(const wire::KernelArguments& arguments) {
  const std::uint64_t count = kernel_symbol_count;
  if (arguments.correction_bytes < sizeof(wire::CorrectionHeader) + count * sizeof(wire::CorrectionSymbol)) {
    kernel::exit(kernel::kCorrectionTooShort);
  }
  const auto& header = *reinterpret_cast<const wire::CorrectionHeader*>(arguments.correction_address);
  const auto* symbols =
      reinterpret_cast<const wire::CorrectionSymbol*>(arguments.correction_address + sizeof(wire::CorrectionHeader));
  if (header.magic != wire::kCorrectionMagic) kernel::exit(kernel::kCorrectionBadMagic);
  if (header.symbol_count != count) kernel::exit(kernel::kCorrectionSymbolCount);
  for (std::uint64_t i = 0; i < count; ++i) {
    const wire::CorrectionSymbol& symbol = symbols[i];
    const auto& expected = kernel_symbol_keys[i];
    if (symbol.kind != expected.kind || symbol.operand != expected.operand) {
      kernel::exit(kernel::kCorrectionSymbolKind);
    }
    kernel::kernel_symbols[i] = is_address(symbol) ? address_of(header, symbol) : symbol.value;
  }
}

}  // namespace

void compute_entry(const wire::KernelArguments* arguments) { kernel::exit(kernel::compute(*arguments)); }

void correction_entry(const wire::KernelArguments* arguments) {
  if (kernel_symbol_count != 0) apply(*arguments);
  auto* const entry = reinterpret_cast<void (*)(const wire::KernelArguments*)>(arguments->compute_entry);
  [[clang::musttail]] return entry(arguments);
}
