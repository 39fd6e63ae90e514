// SPDX-License-Identifier: Apache-2.0
// Between the files of a plan (host_driver/spyrecode) and jobs: what this runtime can do of them, and the way back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <spyre/options.hpp>
#include <string>
#include <variant>
#include <vector>

#include "host_driver/runtime/job.hpp"
#include "host_driver/spyrecode/binary.hpp"
#include "host_driver/spyrecode/plan_writer.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"

namespace svp {

using spyre::SymbolicArguments;

// The HostOperation of a ComputeOnHost: build_correction(), then as many bytes as the DataTransfer moves.
struct DirectoryCorrection {
  std::uint64_t transfer_bytes = 0;
  std::size_t operator()(const HostOperationInput& input, std::span<std::byte> correction) const;
};

// The two make the same bytes of a correction tensor.
bool same_symbol(const KernelSymbol& a, const KernelSymbol& b);

// A kernel of a binary with the command that runs it.
struct BinaryKernel {
  CompiledKernel compiled;
  std::uint64_t core_mask = 0;
  std::uint64_t budget_slices = 0;
};
// Or a device program.
struct BinaryProgram {
  std::shared_ptr<const DeviceProgram> program;
  ProgramOptions options;
};
using PlanBinary = std::variant<BinaryKernel, BinaryProgram>;
// The bytes begin with a binary. Throw InvalidPlan that names `source`; the first one also for a device program.
BinaryKernel read_kernel(std::span<const std::byte> bytes, const std::string& source);
PlanBinary read_plan_binary(std::span<const std::byte> bytes, const std::string& source);

// A binary file, or a kernel image (NAME.img) with its metadata (NAME.json) beside it, without shapes then. Throws
// InvalidPlan naming the file.
PlanBinary load_binary(const std::filesystem::path& file);
std::shared_ptr<const Kernel> load_binary_or_image(const std::filesystem::path& file);

// The first `size` bytes of an InitTransfer's file.
using ReadInit = std::function<std::vector<std::byte>(const spyrecode::InitTransfer&)>;
// One job per ComputeOnDevice; jobs of equal kernels share one Kernel. Throws InvalidPlan for what this runtime cannot
// do, for a binary that is none, and for a ComputeOnHost that does not fit the binary; and what `read` throws.
std::vector<Job> jobs_of(const spyrecode::SpyreCode& code, const ReadInit& read);

// The files of a directory that has these jobs. Throws InvalidPlan for jobs that no directory can hold: transfers, host
// functions of the program; with symbolic arguments also jobs whose correction tensors differ.
spyrecode::PlanFiles content_of(std::span<const Job> jobs, SymbolicArguments arguments);

}  // namespace svp
