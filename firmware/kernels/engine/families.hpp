// SPDX-License-Identifier: Apache-2.0
// What executes the operations: one source file for each family. Each executes the part of `work` that belongs to its
// core, or refuses what it can not execute.
#pragma once

#include "firmware/kernels/engine/work.hpp"

namespace kernel::engine {

Refusal copy(const Work& work);        // copy.cpp
Refusal convert(const Work& work);     // convert.cpp: Copy into another format
Refusal restickify(const Work& work);  // restickify.cpp
Refusal stagger(const Work& work);     // stagger.cpp
Refusal arithmetic(const Work& work);  // arithmetic.cpp: Add Sub Mul Div
Refusal comparison(const Work& work);  // comparison.cpp: Maximum Minimum, Equal … LessEqual, Where
Refusal unary(const Work& work);       // unary.cpp: Abs Neg Relu Clip Floor
Refusal function(const Work& work);    // function.cpp: Exp … Softplus

Refusal matrix_product(const Work& work);      // matmul.cpp
Refusal matrix_product_fp8(const Work& work);  // matmul_fp8.cpp
Refusal reduction(const Work& work);           // reduction.cpp: Sum Mean Max Min Prod Exx2
Refusal layer_norm_scale(const Work& work);    // layer_norm.cpp
Refusal layer_norm(const Work& work);          // layer_norm.cpp: LayerNormNorm
Refusal top_k(const Work& work);               // top_k.cpp: TopKValue TopKIndex
Refusal gather(const Work& work);              // indexed.cpp
Refusal scatter(const Work& work);             // indexed.cpp

}  // namespace kernel::engine
