"""AnnData: the record of a result, the data that are clustered, labels and markers."""
