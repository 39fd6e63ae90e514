// SPDX-License-Identifier: Apache-2.0
// A bundle of torch-spyre as a plan on disk: what dxp_standalone does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host_driver/compiler/argument_lengths.hpp"
#include "host_driver/compiler/bundle.hpp"
#include "host_driver/program/device_program.hpp"
#include "host_driver/spyrecode/plan_writer.hpp"

namespace svp::compiler {

// Passes over the intermediate form. They change the program and none of its results.
struct Passes {
  bool forward_copies = true;  // pass_forward_copies.hpp
};

struct CompileOptions {
  // Bytes of each argument's memory, from where a launch says that it begins: multiples of 128, at most 16 GiB. 0: that
  // one is not known. Empty: none is.
  std::vector<std::uint64_t> lengths{};
  Passes passes{};
};

// Throws InvalidPlan: what this compiler cannot express, with file and line, and lengths that contradict the bundle;
// InvalidArgument ("lengths") when they are none; and Error (recoverable: no) when the program that it made is none,
// which is a defect of the compiler.
DeviceProgram compile(const Bundle& bundle, const CompileOptions& options = {});

// The plan: spyrecode.json and one binary. The same program gives the same bytes. `files`: those of the bundle, which
// the binary brings for whoever learns the lengths; null: nobody needs them.
spyrecode::PlanFiles spyre_code_of(const DeviceProgram& program, const BundleFiles* files = nullptr);

inline constexpr const char* kSpyreCodeFolder = "spyreCodeDir";

// Reads the bundle in `bundle` and writes its plan into `target`/spyreCodeDir. Each file appears complete or not at
// all, spyrecode.json last. Throws as the others, and Error naming what cannot be written.
void compile_directory(const std::filesystem::path& bundle, const std::filesystem::path& target,
                       const Passes& passes = {});

}  // namespace svp::compiler
