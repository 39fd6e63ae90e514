// SPDX-License-Identifier: Apache-2.0
// The subcommands of `spyre`. Each returns the process's exit code; errors travel as exceptions to main().
#pragma once

#include <cstdint>

namespace cli {

struct RunMatmulOptions {
  std::int64_t m = 4096;
  std::int64_t n = 1024;
  std::int64_t k = 1024;
  std::int64_t tile = 0;  // rows of A that the kernel is compiled for; 0: min(m, 1024)
  std::uint64_t seed = 0;
  bool seed_given = false;
  unsigned cores = 0;     // 0: as many as make sense on this machine
  unsigned function = 0;  // 0: PF; n: VF n
  bool json = false;
};

// Multiplies random fp16 matrices on a card of its own through the tiled launch, checks every element bit for bit
// against the golden model and within its error bound against double precision. 1 when anything differs.
int run_matmul(const RunMatmulOptions& options);

struct BootOptions {
  unsigned cores = 0;
  bool self_test = false;
};

// Boots a card, shows the time line of its boot; with self_test also what works and what is refused. 1 when a step fails.
int boot(const BootOptions& options);

int version();

}  // namespace cli
