// Small programs that several primitives' tests rewrite.
#pragma once

namespace tilewright::test {

// T = A + 1; C = T * 2, elementwise.
inline constexpr char kChain[] = R"(
program chain(A: f32[10, 12] input, C: f32[10, 12] output) {
  block root() {
    alloc T: f32[10, 12] global
    for i in 0..10 {
      for j in 0..12 {
        block T(vi: spatial 10 = i, vj: spatial 12 = j) {
          T[vi, vj] = (A[vi, vj] + 1.0f32)
        }
      }
    }
    for i_1 in 0..10 {
      for j_1 in 0..12 {
        block C(wi: spatial 10 = i_1, wj: spatial 12 = j_1) {
          C[wi, wj] = (T[wi, wj] * 2.0f32)
        }
      }
    }
  }
}
)";

// The chain with the consumer's rows in tiles of 4, the last one partial.
inline constexpr char kChainTiled[] = R"(
program chain(A: f32[10, 12] input, C: f32[10, 12] output) {
  block root() {
    alloc T: f32[10, 12] global
    for i in 0..10 {
      for j in 0..12 {
        block T(vi: spatial 10 = i, vj: spatial 12 = j) {
          T[vi, vj] = (A[vi, vj] + 1.0f32)
        }
      }
    }
    for i_0 in 0..3 {
      for i_1 in 0..4 {
        for j_1 in 0..12 {
          block C(wi: spatial 10 = ((i_0 * 4) + i_1), wj: spatial 12 = j_1) where (((i_0 * 4) + i_1) < 10) {
            C[wi, wj] = (T[wi, wj] * 2.0f32)
          }
        }
      }
    }
  }
}
)";

// A tiled matmul followed by a bias.
inline constexpr char kMatmulBias[] = R"(
program matmul(A: f32[8, 6] input, B: f32[6, 20] weight, bias: f32[20] input, C: f32[8, 20] output) {
  block root() {
    alloc T: f32[8, 20] global
    for i_0 in 0..2 {
      for j_0 in 0..3 {
        for k_0 in 0..2 {
          for i_1 in 0..4 {
            for j_1 in 0..8 {
              for k_1 in 0..3 {
                block T(vi: spatial 8 = ((i_0 * 4) + i_1), vj: spatial 20 = ((j_0 * 8) + j_1), vk: reduce 6 = ((k_0 * 3) + k_1)) where (((j_0 * 8) + j_1) < 20) {
                  init {
                    T[vi, vj] = 0.0f32
                  }
                  T[vi, vj] = (T[vi, vj] + (A[vi, vk] * B[vk, vj]))
                }
              }
            }
          }
        }
      }
    }
    for i in 0..8 {
      for j in 0..20 {
        block C(wi: spatial 8 = i, wj: spatial 20 = j) {
          C[wi, wj] = (T[wi, wj] + bias[wj])
        }
      }
    }
  }
}
)";

// A convolution over a padded copy of its input, in tiles of rows.
inline constexpr char kConv[] = R"(
program conv(X: f32[9, 8, 3] input, W: f32[3, 3, 3, 5] weight, Y: f32[9, 8, 5] output) {
  block root() {
    alloc P: f32[11, 10, 3] global
    for h in 0..11 {
      for w in 0..10 {
        for c in 0..3 {
          block P(vh: spatial 11 = h, vw: spatial 10 = w, vc: spatial 3 = c) {
            P[vh, vw, vc] = select(((((1 <= vh) && (vh < 10)) && (1 <= vw)) && (vw < 9)), X[(vh - 1), (vw - 1), vc], 0.0f32)
          }
        }
      }
    }
    for h_0 in 0..3 {
      for h_1 in 0..4 {
        for w_1 in 0..8 {
          for o in 0..5 {
            for r in 0..3 {
              for s in 0..3 {
                for c_1 in 0..3 {
                  block Y(yh: spatial 9 = ((h_0 * 4) + h_1), yw: spatial 8 = w_1, yo: spatial 5 = o, yr: reduce 3 = r, ys: reduce 3 = s, yc: reduce 3 = c_1) where (((h_0 * 4) + h_1) < 9) {
                    init {
                      Y[yh, yw, yo] = 0.0f32
                    }
                    Y[yh, yw, yo] = (Y[yh, yw, yo] + (P[(yh + yr), (yw + ys), yc] * W[yr, ys, yc, yo]))
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}
)";

// The rows of a softmax: maximum, exponentials, their sum, quotient.
inline constexpr char kSoftmax[] = R"(
program softmax(X: f32[6, 7] input, Y: f32[6, 7] output) {
  block root() {
    alloc M: f32[6] global
    alloc E: f32[6, 7] global
    alloc S: f32[6] global
    for i in 0..6 {
      for k in 0..7 {
        block M(mi: spatial 6 = i, mk: reduce 7 = k) {
          init {
            M[mi] = -inf<f32>
          }
          M[mi] = max(M[mi], X[mi, mk])
        }
      }
    }
    for i_1 in 0..6 {
      for j in 0..7 {
        block E(ei: spatial 6 = i_1, ej: spatial 7 = j) {
          E[ei, ej] = exp((X[ei, ej] - M[ei]))
        }
      }
    }
    for i_2 in 0..6 {
      for k_1 in 0..7 {
        block S(si: spatial 6 = i_2, sk: reduce 7 = k_1) {
          init {
            S[si] = 0.0f32
          }
          S[si] = (S[si] + E[si, sk])
        }
      }
    }
    for i_3 in 0..6 {
      for j_1 in 0..7 {
        block Y(yi: spatial 6 = i_3, yj: spatial 7 = j_1) {
          Y[yi, yj] = (E[yi, yj] / S[yi])
        }
      }
    }
  }
}
)";

}  // namespace tilewright::test
