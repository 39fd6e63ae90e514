// SPDX-License-Identifier: Apache-2.0
// Jobs → the files of a directory.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "host_driver/base/crc32c.hpp"
#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/plan_directory.hpp"
#include "host_driver/spyrecode/hcm.hpp"
#include "host_driver/spyrecode/program_binary.hpp"

namespace svp {
namespace {

using spyrecode::ComputeOnDevice;
using spyrecode::ComputeOnHost;
using spyrecode::DataTransfer;
using spyrecode::Hcm;
using spyrecode::SpyreCode;

constexpr const char* kCorrectionHandle = "correction";
constexpr const char* kKernelsOnly = "write jobs of compiled kernels";

[[noreturn]] void refuse_job(const std::string& field, const std::string& what, const char* next = kKernelsOnly) {
  throw InvalidPlan(field, field + " " + what, next);
}

// What a directory says of a job.
struct WrittenJob {
  const Job* job;
  const DeviceCompute* compute;
  std::uint64_t correction_bytes = 0;  // 0: it has no symbols
};

// How many bytes the host function makes; the runtime's own functions only.
std::uint64_t correction_bytes_of(const HostOperation& host, const Job& job, const std::string& name) {
  if (job.device_program() != nullptr) {
    return wire::correction_bytes(static_cast<std::uint32_t>(job.device_program()->arguments().size()));
  }
  using Function = std::size_t (*)(const HostOperationInput&, std::span<std::byte>);
  if (const auto* directory = host.function.target<DirectoryCorrection>()) return directory->transfer_bytes;
  const auto* function = host.function.target<Function>();
  if (function == nullptr || *function != &build_correction) {
    refuse_job(name, "has a host function of the program, which no file can hold");
  }
  return wire::correction_bytes(static_cast<std::uint32_t>(job.program_correction_metadata().symbols.size()));
}

WrittenJob written(const Job& job, std::size_t index) {
  const std::string name = "job[" + std::to_string(index) + "]";
  if (job.binary() == nullptr) refuse_job(name, "is a transfer, whose memory belongs to this process");
  WrittenJob result{.job = &job, .compute = job.job_plan().compute()};
  for (const Step& step : job.job_plan().steps()) {
    if (const auto* host = std::get_if<HostOperation>(&step)) {
      result.correction_bytes = correction_bytes_of(*host, job, name);
    } else if (!std::holds_alternative<CorrectionDMA>(step) && !std::holds_alternative<DeviceCompute>(step)) {
      refuse_job(name, "has a transfer or a fill, whose memory belongs to this process");
    }
  }
  if (job.device_program() != nullptr) return result;
  if (job.compiled_extents().size() > spyrecode::kCommandExtents) {
    refuse_job(name, "has " + std::to_string(job.compiled_extents().size()) +
                         " dimensions, and a command has room for " + std::to_string(spyrecode::kCommandExtents) +
                         " extents");
  }
  const auto& symbols = job.program_correction_metadata().symbols;
  if (result.correction_bytes != 0 && !std::ranges::equal(symbols, job.binary()->metadata().symbols, same_symbol)) {
    refuse_job(name, "has other symbols than its kernel");
  }
  return result;
}

// Of a device program: the addresses of its arguments. The runtime adds what is its own.
Hcm hcm_of_program(const DeviceProgram& program) {
  Hcm hcm;
  for (std::uint32_t i = 0; i < program.arguments().size(); ++i) {
    hcm.inputs.push_back(i);
    hcm.symbols.push_back({wire::SymbolKind::Address, i, 0});
  }
  return hcm;
}

Hcm hcm_of(const Job& job) {
  if (job.device_program() != nullptr) return hcm_of_program(*job.device_program());
  Hcm hcm;
  for (std::uint32_t i = 0; i < job.binary()->metadata().operands.size(); ++i) hcm.inputs.push_back(i);
  for (const KernelSymbol& symbol : job.program_correction_metadata().symbols) {
    hcm.symbols.push_back({symbol.kind, symbol.operand, spyrecode::has_axis(symbol.kind) ? symbol.axis : 0});
  }
  return hcm;
}

// One ComputeOnHost serves all of them.
void require_one_correction(std::span<const WrittenJob> jobs) {
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    if (jobs[i].correction_bytes == jobs[0].correction_bytes && hcm_of(*jobs[i].job) == hcm_of(*jobs[0].job)) continue;
    refuse_job("job[" + std::to_string(i) + "]", "takes another correction tensor than job[0], and a directory has one",
               "write it without symbolic arguments, or each job into a directory of its own");
  }
}

std::vector<std::byte> binary_of(const WrittenJob& written) {
  const Job& job = *written.job;
  if (job.device_program() != nullptr) {
    return spyrecode::write_program_binary({.program = job.device_program()->bytes(),
                                            .name = job.device_program()->name(),
                                            .core_mask = written.compute->core_mask,
                                            .budget_slices = written.compute->budget_slices});
  }
  spyrecode::BinaryCommand command{};
  command.code = spyrecode::CommandCode::Compute;
  command.extent_count = static_cast<std::uint32_t>(job.compiled_extents().size());
  command.core_mask = written.compute->core_mask;
  command.budget_slices = written.compute->budget_slices;
  std::ranges::copy(job.compiled_extents(), command.extents);
  return spyrecode::write_binary(job.binary()->image(), job.binary()->metadata_text(), command);
}

// A kernel's name may be anything; names of a directory stand on terminals and in file systems.
std::string plain_name(const Kernel& kernel) {
  constexpr std::size_t kMostBytes = 64;
  std::string name = kernel.name().substr(0, kMostBytes);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!plain) c = '_';
  }
  return name;
}

// Named after its content: a directory that is written again never has the binary of one version and the plan of
// another.
std::string file_name(const std::string& kernel, std::span<const std::byte> bytes) {
  char checksum[1 + 8 + 1];
  std::snprintf(checksum, sizeof checksum, "-%08x", crc32c(0, bytes));
  return kernel + checksum + ".bin";
}

// Its address; equal binaries have one.
std::uint64_t place(DirectoryContent& content, std::string name, std::vector<std::byte> bytes) {
  SpyreCode& code = content.code;
  for (std::size_t i = 0; i < content.binaries.size(); ++i) {
    if (content.binaries[i].bytes == bytes) return code.init[i].dev_ptr;
  }
  const std::uint64_t address = spyrecode::kProgramBase + code.allocate_bytes;
  code.init.push_back({.file = name, .dev_ptr = address, .size = bytes.size()});
  code.allocate_bytes += bytes.size();
  content.binaries.push_back({std::move(name), std::move(bytes)});
  return address;
}

}  // namespace

DirectoryContent content_of(std::span<const Job> jobs, SymbolicArguments arguments) {
  if (jobs.empty()) refuse_job("jobs", "are none", "add a job first");
  if (jobs.size() > spyrecode::kMostSteps - 2) {
    refuse_job("jobs", "are " + std::to_string(jobs.size()) + ", more than a directory holds",
               "write several directories");
  }
  std::vector<WrittenJob> all;
  all.reserve(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) all.push_back(written(jobs[i], i));
  DirectoryContent content;
  SpyreCode& code = content.code;
  if (arguments == SymbolicArguments::On) require_one_correction(all);
  if (const std::uint64_t bytes = all[0].correction_bytes; arguments == SymbolicArguments::On && bytes != 0) {
    const Hcm hcm = hcm_of(jobs[0]);
    code.exec.emplace_back(ComputeOnHost{.ohandle = kCorrectionHandle,
                                         .ihandle = {},
                                         .size = bytes,
                                         .ishape = {hcm.inputs.size()},
                                         .hcm = spyrecode::to_json(hcm)});
    code.exec.emplace_back(DataTransfer{.direction = spyrecode::TransferDirection::ToDevice,
                                        .host_handle = kCorrectionHandle,
                                        .dev_ptr = spyrecode::kProgramBase,
                                        .size = bytes});
    code.allocate_bytes = wire::align_up(bytes, spyrecode::kAddressAlignment);
  }
  for (const WrittenJob& each : all) {
    const std::string kernel = plain_name(*each.job->binary());
    std::vector<std::byte> bytes = binary_of(each);
    std::string name = file_name(kernel, bytes);
    const std::uint64_t address = place(content, std::move(name), std::move(bytes));
    code.exec.emplace_back(ComputeOnDevice{.job_bin_ptr = address, .name = kernel});
  }
  return content;
}

}  // namespace svp
