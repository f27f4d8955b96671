// Transposes a matrix through a tile in shared memory. The tile is written by rows and read by columns: all lanes of a
// warp read words of one bank. transpose_padded.cu differs in one number.
constexpr int TILE = 32;
constexpr int ROWS = 8;

__global__ void transpose(const float* __restrict__ in, float* __restrict__ out, int width, int height) {
    __shared__ float tile[TILE][TILE];

    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS) {
        tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * width + x];
    }
    __syncthreads();

    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS) {
        out[(y + row) * height + x] = tile[threadIdx.x][threadIdx.y + row];
    }
}

// Sizes are multiples of the tile.
void launch_transpose(const float* in, float* out, int width, int height) {
    transpose<<<dim3(width / TILE, height / TILE), dim3(TILE, ROWS)>>>(in, out, width, height);
}
