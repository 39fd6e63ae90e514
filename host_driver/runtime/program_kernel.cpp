// SPDX-License-Identifier: Apache-2.0
// The kernel of a device program: what the runtime knows of its launch, as if the kernel build had written it.
#include <algorithm>
#include <string>
#include <utility>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/kernel.hpp"

namespace svp {
namespace {

wire::SegmentAccess access_of(const wire::program::Argument& argument) {
  switch (argument.access) {
    case wire::program::Access::None: return wire::kSegmentUnused;
    case wire::program::Access::Read: return wire::kSegmentRead;
    case wire::program::Access::Write: return wire::kSegmentWrite;
    case wire::program::Access::ReadWrite: return wire::kSegmentReadWrite;
  }
  return wire::kSegmentUnused;
}

// An operand that is a run of sticks, and the symbol with its address.
void add_operand(KernelMetadata& metadata, std::string name, wire::SegmentAccess access, bool driver_own) {
  const auto index = static_cast<std::uint32_t>(metadata.operands.size());
  metadata.dimensions.push_back("elements of " + name);
  metadata.operands.push_back({.name = std::move(name),
                               .access = access,
                               .dtype = DeviceType::Dl16,
                               .shape = {index},
                               .driver_own = driver_own});
  metadata.symbols.push_back({.kind = wire::SymbolKind::Address, .operand = index, .axis = 0, .dimension = 0});
}

// Symbols 0: the program, 1 … n: its arguments, then tables, workspace and scratchpads (shared/device_program.hpp).
KernelMetadata metadata_of(const DeviceProgram& program) {
  KernelMetadata metadata;
  metadata.name = program.name();
  add_operand(metadata, "program", wire::kSegmentRead, false);
  for (std::size_t i = 0; i < program.arguments().size(); ++i) {
    add_operand(metadata, "argument " + std::to_string(i), access_of(program.arguments()[i]), false);
  }
  if (program.uses_tables()) add_operand(metadata, "tables", wire::kSegmentRead, false);
  if (program.workspace_bytes() != 0) add_operand(metadata, "workspace", wire::kSegmentReadWrite, true);
  if (program.scratchpads_bytes() != 0) add_operand(metadata, "scratchpads", wire::kSegmentReadWrite, false);
  return metadata;
}

static_assert(wire::program::kMaxLaunchOperands <= kMaxOperands && kMaxOperands <= kMaxDimensions);
static_assert(kMaxOperands <= wire::kMaxSymbols);

}  // namespace

std::shared_ptr<const Kernel> Kernel::of_program(std::shared_ptr<const DeviceProgram> program,
                                                 std::shared_ptr<const Kernel> engine) {
  if (engine != nullptr && engine->max_correction_bytes() != wire::kMaxCorrectionBytes) {
    throw InvalidArgument("engine",
                          "kernel " + engine->name() + " does not take correction tensors of every size, and so it " +
                              "executes no device programs",
                          "take Context::engine()");
  }
  std::shared_ptr<Kernel> kernel(new Kernel);
  kernel->header_.max_correction_bytes = wire::kMaxCorrectionBytes;
  kernel->metadata_ = metadata_of(*program);
  if (engine != nullptr) {
    kernel->header_ = engine->header_;
    kernel->metadata_.image_bytes = engine->metadata_.image_bytes;
    kernel->metadata_.image_crc32c = engine->metadata_.image_crc32c;
  }
  kernel->program_ = std::move(program);
  kernel->engine_ = std::move(engine);
  return kernel;
}

}  // namespace svp
