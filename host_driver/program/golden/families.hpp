// SPDX-License-Identifier: Apache-2.0
// One function for each family of operations. Each executes one operation that the checker has passed.
#pragma once

#include "host_driver/program/golden/view.hpp"

namespace svp::program::golden {

void run_copy(const Step& step);
void run_restickify(const Step& step);
void run_stagger(const Step& step);
void run_pointwise(const Step& step);  // also functions
void run_indexed(const Step& step);
void run_reduction(const Step& step);
void run_layer_norm(const Step& step);
void run_matmul(const Step& step);
void run_top_k(const Step& step);

}  // namespace svp::program::golden
