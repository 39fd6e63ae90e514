// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/plan_directory.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "host_driver/program/device_program.hpp"
#include "host_driver/spyrecode/directory.hpp"
#include "host_driver/spyrecode/hcm.hpp"
#include "host_driver/spyrecode/program_binary.hpp"

namespace svp {
namespace {

using spyrecode::ComputeOnDevice;
using spyrecode::ComputeOnHost;
using spyrecode::DataTransfer;
using spyrecode::ExecStep;
using spyrecode::Hcm;
using spyrecode::HcmSymbol;
using spyrecode::InitTransfer;
using spyrecode::SpyreCode;

constexpr std::uint64_t kMostInitBytes = 64 * wire::kMiB;  // of one directory
constexpr const char* kOwnPlan = "make the jobs in the program (spyre::Job), or write the directory for this card";

[[noreturn]] void refuse(const std::string& field, const std::string& what, const char* next = kOwnPlan) {
  throw InvalidPlan(field, field + " " + what, next);
}

// Image, metadata and extents were written by others: what is wrong with them is wrong with the file.
template <typename Make>
auto from_source(const std::string& source, Make make) {
  try {
    return make();
  } catch (const InvalidPlan&) {
    throw;
  } catch (const InvalidArgument& error) {
    throw InvalidPlan(source, source + ": " + error.info().message, error.info().next_step);
  }
}

CompiledKernel with_extents(std::shared_ptr<const Kernel> kernel, const spyrecode::Binary& binary,
                            const std::string& source) {
  const auto& dimensions = kernel->metadata().dimensions;
  const auto extents = binary.extents();
  if (dimensions.size() != extents.size()) {
    throw InvalidPlan(source,
                      source + ": kernel " + kernel->name() + " has " + std::to_string(dimensions.size()) +
                          " dimensions, the command list gives " + std::to_string(extents.size()) + " extents",
                      "write the binary again (spyre spyrecode make)");
  }
  DimensionExtents named;
  for (std::size_t i = 0; i < extents.size(); ++i) named[dimensions[i]] = extents[i];
  return {std::move(kernel), named};
}

}  // namespace

bool same_symbol(const KernelSymbol& a, const KernelSymbol& b) {
  if (a.kind != b.kind || a.operand != b.operand) return false;
  return !spyrecode::has_axis(a.kind) || (a.axis == b.axis && a.dimension == b.dimension);
}

std::size_t DirectoryCorrection::operator()(const HostOperationInput& input, std::span<std::byte> correction) const {
  (void)build_correction(input, correction);  // no more than transfer_bytes: jobs_of() has checked it
  return transfer_bytes;
}

BinaryKernel read_kernel(std::span<const std::byte> bytes, const std::string& source) {
  const spyrecode::Binary binary = spyrecode::read_binary(bytes, source);
  return from_source(source, [&] {
    auto kernel = Kernel::from_memory({binary.image.begin(), binary.image.end()}, binary.metadata);
    return BinaryKernel{.compiled = with_extents(std::move(kernel), binary, source),
                        .core_mask = binary.command.core_mask,
                        .budget_slices = binary.command.budget_slices};
  });
}

PlanBinary read_plan_binary(std::span<const std::byte> bytes, const std::string& source) {
  if (!spyrecode::is_program_binary(bytes)) return read_kernel(bytes, source);
  const spyrecode::ProgramBinary binary = spyrecode::read_program_binary(bytes, source);
  return from_source(source, [&] {
    std::vector<std::byte> program(binary.program.begin(), binary.program.end());
    return BinaryProgram{.program = std::make_shared<const DeviceProgram>(std::string(binary.name), std::move(program)),
                         .options = {.core_mask = binary.core_mask, .budget_slices = binary.budget_slices}};
  });
}

namespace {

bool is_image(std::span<const std::byte> bytes) {
  std::uint64_t magic = 0;
  if (bytes.size() >= sizeof magic) std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == wire::kImageMagic;
}

}  // namespace

PlanBinary load_binary(const std::filesystem::path& file) {
  const auto content = spyrecode::read_file(file, spyrecode::kMostProgramBinaryBytes);
  if (is_image(content.bytes)) {
    throw InvalidPlan(file.string(), file.string() + ": is a kernel image, which has no shapes",
                      "give the job metadata and a plan with shapes, or a binary of a directory");
  }
  return read_plan_binary(content.bytes, file.string());
}

std::shared_ptr<const Kernel> load_binary_or_image(const std::filesystem::path& file) {
  auto content = spyrecode::read_file(file, spyrecode::kMostBinaryBytes);
  if (!is_image(content.bytes)) return read_kernel(content.bytes, file.string()).compiled.kernel();
  std::filesystem::path metadata = file;
  metadata.replace_extension(".json");
  const auto text = spyrecode::read_file(metadata, spyrecode::kMostMetadataBytes);
  return from_source(file.string(), [&] {
    return Kernel::from_memory(std::move(content.bytes),
                               {reinterpret_cast<const char*>(text.bytes.data()), text.bytes.size()});
  });
}

// ---- directory → jobs -----------------------------------------------------------------------------------------------

namespace {

// What the InitTransfers bring, and the binaries in it.
class ProgramMemory {
 public:
  ProgramMemory(const SpyreCode& code, const ReadInit& read) : code_(code) {
    std::uint64_t bytes = 0;
    for (const InitTransfer& init : code.init) bytes += init.size;
    if (bytes > kMostInitBytes) {
      refuse("JobPreparationPlan",
             "brings " + std::to_string(bytes) + " bytes, more than " + std::to_string(kMostInitBytes),
             "write a directory for each part of the program");
    }
    for (const InitTransfer& init : code.init) {
      bytes_.push_back(read(init));
      if (bytes_.back().size() != init.size) refuse(init.file, "was not read completely", "read the directory again");
    }
    used_.assign(code.init.size(), false);
  }

  const PlanBinary& at(std::uint64_t address) {
    const auto found = binaries_.find(address);
    return found != binaries_.end() ? found->second : binaries_.emplace(address, read_at(address)).first->second;
  }

  // A kernel reaches its own image only: bytes that no step runs would be brought for nothing.
  void require_all_used() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      refuse("JobPreparationPlan[" + std::to_string(i + 1) + "]",
             "brings " + code_.init[i].file + ", which no ComputeOnDevice runs: this runtime loads binaries only");
    }
  }

 private:
  PlanBinary read_at(std::uint64_t address) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const InitTransfer& init = code_.init[i];
      if (address < init.dev_ptr || address - init.dev_ptr >= init.size) continue;
      used_[i] = true;
      const std::uint64_t offset = address - init.dev_ptr;
      const std::string source = offset == 0 ? init.file : init.file + " at byte " + std::to_string(offset);
      PlanBinary binary = read_plan_binary(std::span(bytes_[i]).subspan(offset), source);
      if (auto* const kernel = std::get_if<BinaryKernel>(&binary)) {
        kernel->compiled = shared(kernel->compiled);
      } else {
        share_program(std::get<BinaryProgram>(binary));
      }
      return binary;
    }
    refuse("job_bin_ptr", "points to no byte that an InitTransfer brings");  // parse() refuses it before
  }

  // Equal kernels with other extents: one place in program memory.
  CompiledKernel shared(const CompiledKernel& compiled) {
    for (const auto& [address, known] : binaries_) {
      const auto* const other = std::get_if<BinaryKernel>(&known);
      if (other == nullptr) continue;
      const auto& kernel = other->compiled.kernel();
      if (!std::ranges::equal(kernel->image(), compiled.kernel()->image()) ||
          kernel->metadata_text() != compiled.kernel()->metadata_text()) {
        continue;
      }
      DimensionExtents extents;
      for (std::size_t i = 0; i < compiled.extents().size(); ++i) {
        extents[kernel->metadata().dimensions[i]] = compiled.extents()[i];
      }
      return {kernel, extents};
    }
    return compiled;
  }

  void share_program(BinaryProgram& binary) const {
    for (const auto& [address, known] : binaries_) {
      const auto* const other = std::get_if<BinaryProgram>(&known);
      if (other == nullptr || other->program->name() != binary.program->name()) continue;
      if (std::ranges::equal(other->program->bytes(), binary.program->bytes())) binary.program = other->program;
    }
  }

  const SpyreCode& code_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<bool> used_;
  std::map<std::uint64_t, PlanBinary> binaries_;  // by address
};

// A ComputeOnHost with its DataTransfer: what the computations behind them get.
struct HostStep {
  std::size_t index = 0;  // of the ComputeOnHost
  const ComputeOnHost* host = nullptr;
  const DataTransfer* transfer = nullptr;
  Hcm hcm;
};

HostStep read_host_step(const ComputeOnHost& host, std::size_t index) {
  const std::string path = spyrecode::step_path(index);
  if (!host.ihandle.empty()) {
    refuse(path, "reads the buffer '" + host.ihandle +
                     "': a host computation of this runtime reads the addresses of the launch's tensors only");
  }
  if (host.size > wire::kMaxCorrectionBytes) {
    refuse(path, "makes " + std::to_string(host.size) + " bytes, and a correction tensor has at most " +
                     std::to_string(wire::kMaxCorrectionBytes));
  }
  HostStep step{.index = index, .host = &host, .hcm = spyrecode::parse_hcm(host.hcm, path + ".properties.hcm")};
  if (spyrecode::address_count(host) != step.hcm.inputs.size()) {
    refuse(path, "has an ishape of " + std::to_string(spyrecode::address_count(host)) +
                     " addresses, and its hcm reads " + std::to_string(step.hcm.inputs.size()));
  }
  return step;
}

void add_transfer(std::optional<HostStep>& step, const DataTransfer& transfer, std::size_t index) {
  const std::string path = spyrecode::step_path(index);
  if (transfer.direction == spyrecode::TransferDirection::FromDevice) {
    refuse(path, "moves bytes from the device: a plan of this runtime brings nothing back to the host");
  }
  const bool follows = step && step->transfer == nullptr && transfer.host_handle == step->host->ohandle;
  if (!follows) {
    refuse(path,
           "moves a buffer that is not the one of a ComputeOnHost directly in front of it: a plan of this "
           "runtime corrects the computation behind it, and moves no other bytes");
  }
  step->transfer = &transfer;
}

// The symbol as the runtime resolves it. `path` is that of the ComputeOnHost.
KernelSymbol symbol_of(const HcmSymbol& symbol, const Hcm& hcm, const KernelMetadata& kernel, const std::string& path) {
  KernelSymbol result{.kind = symbol.kind, .operand = hcm.inputs[symbol.input]};
  if (result.operand >= kernel.operands.size()) {
    refuse(path, "reads tensor " + std::to_string(result.operand) + ", and kernel " + kernel.name + " has " +
                     std::to_string(kernel.operands.size()) + " operands");
  }
  if (!spyrecode::has_axis(symbol.kind)) return result;
  const auto& shape = kernel.operands[result.operand].shape;
  if (symbol.axis >= shape.size()) {
    refuse(path, "names axis " + std::to_string(symbol.axis) + " of operand " + kernel.operands[result.operand].name +
                     ", which has " + std::to_string(shape.size()));
  }
  result.axis = symbol.axis;
  result.dimension = shape[symbol.axis];
  return result;
}

std::string words_of(const KernelSymbol& symbol, const KernelMetadata& kernel) {
  std::string text = spyrecode::name_of(symbol.kind) + std::string(" of ") + kernel.operands[symbol.operand].name;
  if (spyrecode::has_axis(symbol.kind)) text += "." + kernel.dimensions[symbol.dimension];
  return text;
}

// The kernel's correction program takes the symbols in its own order: others would be addresses of something else.
ProgramCorrectionMetadata correction_of(const HostStep& step, const Kernel& kernel) {
  const KernelMetadata& metadata = kernel.metadata();
  const std::string path = spyrecode::step_path(step.index);
  if (step.hcm.symbols.size() != metadata.symbols.size()) {
    refuse(path, "makes " + std::to_string(step.hcm.symbols.size()) + " symbols, and kernel " + metadata.name +
                     " takes " + std::to_string(metadata.symbols.size()));
  }
  ProgramCorrectionMetadata correction{.symbols = {}, .max_bytes = step.host->size};
  for (std::size_t i = 0; i < step.hcm.symbols.size(); ++i) {
    const KernelSymbol symbol = symbol_of(step.hcm.symbols[i], step.hcm, metadata, path);
    if (!same_symbol(symbol, metadata.symbols[i])) {
      refuse(path, "makes symbol " + std::to_string(i) + " the " + words_of(symbol, metadata) + ", and kernel " +
                       metadata.name + " takes the " + words_of(metadata.symbols[i], metadata));
    }
    correction.symbols.push_back(symbol);
  }
  const std::uint64_t needed = wire::correction_bytes(static_cast<std::uint32_t>(correction.symbols.size()));
  if (step.transfer->size < needed) {
    refuse(path, "and its DataTransfer bring " + std::to_string(step.transfer->size) + " bytes, and kernel " +
                     metadata.name + " reads " + std::to_string(needed));
  }
  if (step.transfer->size > kernel.max_correction_bytes()) {
    refuse(path, "and its DataTransfer bring " + std::to_string(step.transfer->size) + " bytes, and kernel " +
                     metadata.name + " takes at most " + std::to_string(kernel.max_correction_bytes()));
  }
  return correction;
}

// The correction of a device program is the runtime's own, because it holds the program and a workspace as well: what
// the directory describes has to be the addresses of the arguments, in order.
void check_correction(const HostStep& step, const DeviceProgram& program) {
  const std::string path = spyrecode::step_path(step.index);
  const std::size_t arguments = program.arguments().size();
  bool in_order = step.hcm.symbols.size() == arguments;
  for (std::size_t i = 0; in_order && i < arguments; ++i) {
    const HcmSymbol& symbol = step.hcm.symbols[i];
    in_order = symbol.kind == wire::SymbolKind::Address && step.hcm.inputs[symbol.input] == i;
  }
  if (!in_order) {
    refuse(path, "does not make the addresses of tensors 0 to " + std::to_string(arguments) + " (that one excluded), " +
                     "which device program " + program.name() + " takes");
  }
}

Job job_of(const BinaryProgram& binary, const std::optional<HostStep>& step) {
  if (step) check_correction(*step, *binary.program);
  return Job(binary.program, nullptr, binary.options);
}

// Without a ComputeOnHost the runtime gives the kernel the addresses by itself.
Job job_of(const BinaryKernel& binary, const std::optional<HostStep>& step) {
  const CompiledKernel& compiled = binary.compiled;
  const bool corrects = step || !compiled.kernel()->metadata().symbols.empty();
  std::vector<Step> steps;
  if (corrects) {
    HostOperation host;
    if (step) host.function = DirectoryCorrection{step->transfer->size};
    steps.emplace_back(std::move(host));
    steps.emplace_back(CorrectionDMA{});
  }
  steps.emplace_back(
      DeviceCompute{.expected_input_shapes = {compiled.operand_shapes().begin(), compiled.operand_shapes().end()},
                    .core_mask = binary.core_mask,
                    .budget_slices = binary.budget_slices});
  auto correction = step ? correction_of(*step, *compiled.kernel()) : ProgramCorrectionMetadata::of(*compiled.kernel());
  return {compiled.kernel(), std::move(correction), JobPlan(std::move(steps))};
}

Job job_of(const PlanBinary& binary, const std::optional<HostStep>& step) {
  return std::visit([&](const auto& of) { return job_of(of, step); }, binary);
}

}  // namespace

Job::Job(const std::filesystem::path& binary_path, ProgramCorrectionMetadata program_correction_metadata,
         JobPlan job_plan)
    : Job(load_binary_or_image(binary_path), std::move(program_correction_metadata), std::move(job_plan)) {}

Job::Job(const std::filesystem::path& binary_path)
    : Job(from_source(binary_path.string(), [&] { return job_of(load_binary(binary_path), std::nullopt); })) {}

std::vector<Job> jobs_of(const SpyreCode& code, const ReadInit& read) {
  ProgramMemory memory(code, read);
  std::vector<Job> jobs;
  std::optional<HostStep> step;
  bool pending = false;  // a ComputeOnHost that no computation has used yet
  const auto require_transferred = [&] {
    if (step && step->transfer == nullptr) {
      refuse(spyrecode::step_path(step->index), "is not followed directly by the DataTransfer of its buffer");
    }
  };
  for (std::size_t i = 0; i < code.exec.size(); ++i) {
    if (const auto* host = std::get_if<ComputeOnHost>(&code.exec[i])) {
      if (pending) break;
      step = read_host_step(*host, i);
      pending = true;
    } else if (const auto* transfer = std::get_if<DataTransfer>(&code.exec[i])) {
      add_transfer(step, *transfer, i);
    } else {
      require_transferred();
      const auto& compute = std::get<ComputeOnDevice>(code.exec[i]);
      jobs.push_back(
          from_source(spyrecode::step_path(i), [&] { return job_of(memory.at(compute.job_bin_ptr), step); }));
      pending = false;
    }
  }
  require_transferred();
  if (pending) refuse(spyrecode::step_path(step->index), "makes a buffer that no ComputeOnDevice behind it uses");
  memory.require_all_used();
  return jobs;
}

}  // namespace svp
