// Applies one of two recurrences to each element: even elements decay, odd ones grow towards a limit. Neighbouring lanes
// take different branches, so every warp runs both loops. filter_branch_free.cu computes the same without a branch.
__global__ void __launch_bounds__(256) filter(const float* __restrict__ in, float* __restrict__ out, int count, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float value = in[i];
    if (threadIdx.x % 2 == 0) {
        for (int step = 0; step < steps; ++step) {
            value = value * 0.75f;
        }
    } else {
        for (int step = 0; step < steps; ++step) {
            value = value * 0.5f + 1.0f;
        }
    }
    out[i] = value;
}
